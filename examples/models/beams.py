"""Beam search: the likeliest sequences that were found by going on with several at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .generation import Choice, Decoder, Steps


class _Prompt:
    """The beams of one prompt.

    Attributes:
        scores: log chances of the running beams, the best first.
        running: their tokens.
        ended: finished sequences with their scores over a power of their length, the best first.
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        # All beams begin equal: only the first may go on, or all would stay equal.
        self.scores = np.where(np.arange(choice.beams), -np.inf, 0.0)
        self.running: list[list[int]] = [[] for _ in range(choice.beams)]
        self.ended: list[tuple[float, list[int]]] = []
        self.done = False

    def advance(self, logs: np.ndarray) -> np.ndarray:
        """Chooses the next tokens by their log chances, (beams, vocabulary); whose they follow."""
        beams, vocabulary = logs.shape
        totals = (self.scores[:, None] + logs).reshape(-1)
        # Of twice as many, enough go on even if each beam could end here.
        count = min((1 + max(1, len(self.choice.end))) * beams, totals.size)
        best = np.argpartition(-totals, count - 1)[:count]
        best = best[np.lexsort((best, -totals[best]))]
        kept: list[tuple[int, int, float]] = []
        for rank, place in enumerate(best):
            row, token = divmod(int(place), vocabulary)
            total = float(totals[place])
            if token in self.choice.end:
                if rank < beams and not self.done:
                    self._end(total, self.running[row], 1)
            elif len(kept) < beams:
                kept.append((row, token, total))
        self.scores = np.array([total for _, _, total in kept])
        self.running = [[*self.running[row], token] for row, token, _ in kept]
        length = len(self.running[0])
        full = len(self.ended) == beams
        hoped = self.scores[0] / length**self.choice.length_penalty
        self.done = self.done or (full and hoped <= self.ended[-1][0])
        return np.array([row for row, _, _ in kept])

    def _end(self, total: float, tokens: list[int], more: int) -> None:
        length = len(tokens) + more
        self.ended.append((total / length**self.choice.length_penalty, tokens))
        self.ended.sort(key=lambda pair: -pair[0])
        del self.ended[self.choice.beams :]

    def best(self) -> list[int]:
        """The best sequence."""
        if not self.done:
            for total, tokens in zip(self.scores, self.running, strict=True):
                self._end(float(total), tokens, 0)
        return self.ended[0][1]


def search(model: Decoder, prompts: Sequence[Sequence[int]], choice: Choice) -> list[list[int]]:
    """What `generate` returns for more than one beam."""
    found = [_Prompt(choice) for _ in prompts]
    if not choice.max_new_tokens:
        return [[] for _ in prompts]
    steps = Steps(model, prompts, choice.max_new_tokens, choice.beams)
    scores = steps.scores
    for i in range(choice.max_new_tokens):
        logs = scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)
        rows = np.concatenate(
            [
                prompt.advance(part) + j * choice.beams
                for j, (prompt, part) in enumerate(
                    zip(found, logs.reshape(len(prompts), choice.beams, -1), strict=True)
                )
            ]
        )
        if all(p.done for p in found) or i + 1 == choice.max_new_tokens:
            break
        steps.reorder(rows)
        scores = steps.after(np.array([tokens[-1] for p in found for tokens in p.running]))
    return [p.best() for p in found]
