"""Which filters a model can lose, and how its tensors are cut down in place and put back."""
