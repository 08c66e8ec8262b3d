"""Models as they are published: a folder with a configuration, weights and a tokenizer."""
