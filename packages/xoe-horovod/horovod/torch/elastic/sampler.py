"""The sampler of ``xoe.torch.elastic``."""

from xoe.torch.elastic import ElasticSampler as ElasticSampler
