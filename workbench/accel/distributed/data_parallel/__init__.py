"""What makes a cell's own loop data-parallel in a rank: shares of each batch, one gradient, one model.

data_parallel.py                              models, loaders, random numbers and gradients of an unmodified cell
synchronised_model.py                         DistributedDataParallel round a model's call, in place
found_models.py                               models found in use; the parts of a whole
bucket_exchange.py · gradient_compression.py  how DDP is made; how a bucket of gradients travels
gradient_exchange.py · averaging.py           means of gradients where DDP is too early, or knows nothing of them
accumulation.py · gradient_readers.py         passes that need no exchange; code that looks at gradients itself
graph_leaves.py                               parameters of no model
synchronised_norm.py                         BatchNorm over the samples of all ranks
one_model.py · parted.py · whereabouts.py     ranks that no longer train one model stop, with the reason
training_notes.py                             where a run was not what one process would have done
shared_loader.py · split_loaders.py           each rank's part of the same batches; loaders that are shared out already
own_distribution.py                           what a cell does by itself of all this
lineages.py                                   random numbers: those that all ranks share, and each rank's own
gathered_pieces.py                            what a cell kept of a model that is spread over ranks, made whole
step_watching.py · step_loss.py               some steps watched; their loss as a user reads it
loop_code.py                                 what the code of a loop says of it before its first batch
shared_loops.py                               the cell's loops over loaders
"""
