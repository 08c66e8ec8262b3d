"""Published models in plain `ingle.nn`, each usable by one command: `python -m models.gpt2`."""
