"""A server for models in Python, which speaks the Open Inference Protocol, version 2.

:func:`gpumux.serve` is the way to start a server. :class:`Server` is for programs that start and
stop a server themselves. A model gets and returns tensors of PyTorch, or :class:`Tensor`.
"""

from .server import Server
from .tensor import Tensor, TensorError

__all__ = ["Server", "Tensor", "TensorError"]
