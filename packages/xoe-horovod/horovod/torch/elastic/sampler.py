"""The sampler of ``xoe.torch.elastic``."""

from xoe.torch.elastic import ElasticSampler

__all__ = ["ElasticSampler"]
