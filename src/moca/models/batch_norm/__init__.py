"""BatchNorm that normalises the batches of a pass separately: in our own layer, and in those of other encoders."""
