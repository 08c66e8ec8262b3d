"""Threads: the thread pool and native plan runner."""
