"""Elastic training with PyTorch.

A training function gets a state to which all ranks can return::

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            for batch, (images, labels) in enumerate(loader):
                ...
                state.sampler.record_batch(batch, batch_size)
            state.sampler.set_epoch(state.epoch + 1)
            state.commit()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0))
"""

from xoe.elastic import ObjectState, State, run
from xoe.ledger import Ledger
from xoe.torch.elastic.sampler import ElasticSampler
from xoe.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "Ledger", "ObjectState", "State", "TorchState", "run"]
