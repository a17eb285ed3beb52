"""Fields that are made when they are asked for: a training on them sees no field twice, or each a few times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.datasets.fields.torch_data import TensorFields
from sciops.grids import Grid
from sciops.symmetry import Symmetry


class FreshFields(Dataset):
    """An endless data set: sample i is computed when it is asked for, the same at every call.

    In epoch e (from 0) `sciops.training.fit` trains on the samples e·L … (e + 1)·L − 1, one after the other, so that
    every step has fields that were not seen before. The next batches are made while a step runs: in a thread,
    or in ``TrainConfig.loader_workers`` processes. Normalisers are fitted on the first L samples. A resumed training
    goes on where it stopped, with the samples that it would have had.

    Parameters
    ----------
    make : function of numbers (count,) int64, in ascending order
        Returns {"x": (count, in_channels, *grid), "y": (count, out_channels, *grid)}, torch or numpy, of the samples
        with these numbers. It has to depend on the numbers alone, and to be a function of a module where several
        processes make the fields.
    grid : Grid
        Where they are sampled.
    length : int
        L, samples that an epoch has.
    first : int
        Number of sample 0, for a stream that shares no sample with another of the same law and seed.
    passes : int
        How often every field comes: where fields cost as much as steps, a second pass over new ones is cheaper than
        others, and nearly as good. Fields come in blocks of `held`, each gone through `passes` times in random orders
        before the next; those of a block are kept in memory.
    held : int
        Fields of a block; of no effect with one pass.
    about : str
        Law and seed in words; a run resumes on the same only.
    symmetry : Symmetry, optional
        Of the problem, for augmentation.
    dtype : torch.dtype
        Of the tensors.

    Attributes
    ----------
    len(d) : L, though ``d.batch`` takes numbers beyond it
    d.batch(numbers) : {"x": …, "y": …} of the samples with these numbers, in that order
    d.subset(numbers) : `TensorFields` of these samples, which are made at once: for validation and tests

    Raises
    ------
    ValueError
        For a length, passes or held below 1, a negative number, fields that do not fit the grid or the numbers, and
        fields that are not finite, naming the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from sciops import Grid
    >>> from sciops.datasets import FreshFields
    >>> def waves(numbers):
    ...     phase = np.stack([np.random.default_rng(i).random(1) for i in numbers])
    ...     x = np.sin(2 * np.pi * (np.arange(16) / 16 + phase))
    ...     return {"x": x[:, None], "y": -x[:, None]}
    >>> stream = FreshFields(waves, Grid((16,), centering="periodic"), length=100, about="waves of one period")
    >>> stream.batch([3, 100_000])["x"].shape
    torch.Size([2, 1, 16])
    """

    lazy, fresh = True, True

    def __init__(
        self,
        make: Callable[[np.ndarray], Mapping[str, Any]],
        grid: Grid,
        *,
        length: int,
        first: int = 0,
        passes: int = 1,
        held: int = 256,
        about: str = "",
        symmetry: Symmetry | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if length < 1 or first < 0:
            raise ValueError(f"length={length}, first={first}: expected at least 1 sample an epoch, numbered from 0 on")
        if passes < 1 or held < 1:
            raise ValueError(f"passes={passes}, held={held}: expected at least 1 of each")
        self.make, self.grid, self.length, self.first = make, grid, length, first
        self.passes, self.held = passes, held
        self._kept: dict[int, dict[str, Tensor]] = {}
        self.about, self.symmetry, self.dtype = about, symmetry, dtype

    def __repr__(self) -> str:
        named = f"{self.about}, " if self.about else ""
        named += f"every field {self.passes} times, " if self.passes > 1 else ""
        return f"FreshFields({named}{self.length} samples an epoch from number {self.first} on, {self.grid!r})"

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([number]).items()}

    def batch(self, indices: Any) -> dict[str, Tensor]:
        """{"x": (batch, channels, *grid), "y": …} of the samples with these numbers, in that order."""
        if isinstance(indices, slice):
            indices = np.arange(self.length)[indices]
        numbers = np.asarray(indices, dtype=np.int64)
        if numbers.size and numbers.min() < 0:
            raise ValueError(f"sample {int(numbers.min())}: expected a number from 0 on")
        if self.passes == 1 or not numbers.size:
            made, unique = self._made(numbers), np.unique(numbers)
            return {key: value[torch.from_numpy(np.searchsorted(unique, numbers))] for key, value in made.items()}
        numbers = self._fields_of(numbers)
        kept, missing = dict(self._kept), np.setdiff1d(numbers, list(self._kept))
        if missing.size:
            made = self._made(missing)
            kept |= {int(n): {key: value[i] for key, value in made.items()} for i, n in enumerate(missing)}
        latest = numbers.max() // self.held
        self._kept = {n: fields for n, fields in kept.items() if n // self.held >= latest}
        return {key: torch.stack([kept[int(n)][key] for n in numbers]) for key in ("x", "y")}

    def _fields_of(self, numbers: np.ndarray) -> np.ndarray:
        """The field that each sample is: one of its block, in the order of the block's turn."""
        turns, within = np.divmod(numbers, self.held)
        fields = np.empty_like(numbers)
        for turn in np.unique(turns):
            block, turn_of_block = divmod(int(turn), self.passes)
            order = np.random.default_rng([block, turn_of_block]).permutation(self.held)
            here = turns == turn
            fields[here] = block * self.held + order[within[here]]
        return fields

    def _made(self, numbers: np.ndarray) -> dict[str, Tensor]:
        """{"x", "y"} of the fields with these numbers, each once and in ascending order."""
        unique = np.unique(numbers)
        made = self.make(unique + self.first)
        fields = TensorFields(made["x"], made["y"], self.grid)  # checks the shapes
        if len(fields) != len(unique):
            raise ValueError(f"{len(unique)} samples were asked for, and make returned {len(fields)}")
        for name, field in (("x", fields.x), ("y", fields.y)):
            finite = torch.isfinite(field).flatten(1).all(1)
            if not finite.all():
                number = int(unique[int((~finite).nonzero()[0])])
                raise ValueError(f"sample {number} of the stream has values in {name!r} that are not finite")
        return {"x": fields.x.to(self.dtype), "y": fields.y.to(self.dtype)}

    def subset(self, indices: Any) -> TensorFields:
        """The samples with these numbers, made now and held in memory."""
        made = self.batch(indices)
        return TensorFields(made["x"], made["y"], self.grid, symmetry=self.symmetry)
