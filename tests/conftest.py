"""One thread: on a small machine with busy cores, tiny torch operations crawl on more."""

import torch

torch.set_num_threads(1)
