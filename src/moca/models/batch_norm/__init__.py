"""BatchNorm that keeps the batches of a pass apart: our own layer, and any that an encoder of others has."""
