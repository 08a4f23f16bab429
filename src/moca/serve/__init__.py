"""A model as a small HTTP service: a web page for predicting and teaching, and a JSON API; needs the extra `serve`."""
