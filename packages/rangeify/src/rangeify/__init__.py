"""Tensor scheduler: from lazy tensors to fused kernels, an order and a memory plan."""
