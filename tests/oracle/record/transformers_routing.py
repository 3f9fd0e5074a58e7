"""Balanced routing for the experts of transformers before 5.0, which run one after the other: what their loop reads of counts and masks
on the device, which are zero here, is put in its place (4.57.6, models/mixtral/modeling_mixtral.py:125)."""
import torch


def balance(experts):
    read, find = torch.Tensor.nonzero, torch.where

    def nonzero(self, **settings):
        if self.shape == (experts,) and not settings:  # experts that have tokens: all, by numbers that the host knows
            return torch.arange(experts).view(-1, 1)
        return read(self, **settings)

    def where(condition, *values, **settings):
        if values or settings or condition.dim() != 2:
            return find(condition, *values, **settings)
        rows = condition.numel() // experts  # of a mask of choices by tokens
        return torch.zeros(rows, 2, dtype=torch.long, device=condition.device).unbind(1)

    torch.Tensor.nonzero, torch.where = nonzero, where
