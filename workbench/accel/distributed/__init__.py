"""The notebook's own cell on several processes of this machine, data-parallel, without a script and without a restart.

accel.ddp(cell_or_function, n=2)    run it in n warm ranks; the trained state comes back
RankPool(n).run(function)           any function in n ranks that can talk to each other

ranks/          processes with CPUs of their own, kept warm: started, asked, watched, ended
cells/          the notebook's cell on them: shipped, run, brought home; the result
data_parallel/  what makes an unmodified cell data-parallel: models, loaders, random numbers, gradients
communication/  what ranks exchange, and what it costs
checkpoints/    a run that goes on where it stopped
trials/         a plan of several ranks as one variant of a trial
sweep/          the same cell on several numbers of ranks and threads
oneccl/         oneCCL as the backend of a group, built where it is asked for
"""
