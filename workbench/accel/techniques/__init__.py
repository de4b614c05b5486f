"""What accelerations are made of: how objects of torch are changed in place, measured, undone, and written as plain code.

    model/      a model's call and its copies      pruning/    which filters can go, and cutting them out
    data/       loaders, data sets, transforms     sharding/   parameters and optimizer states spread over ranks
    numerics/   number formats, layout, settings   compiling/  torch.compile for one object
    steps/      optimizers, their steps and rates  source/     the user's code, and ours as plain code

An entry of `accel.accelerations` is a card with a few lines of these. Nothing here knows an entry.
"""
