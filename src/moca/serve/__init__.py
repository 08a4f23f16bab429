"""A model as a small HTTP service: a page to look and teach with, and the same as JSON; needs the extra `serve`."""
