"""SyncBatchNorm normalises over the batches of all ranks, as BatchNorm does over one that has them all."""

import ranks

ranks.start(__file__, sizes=(1, 2, 3))

import torch

import xoe.torch as hvd

hvd.init()
torch.set_num_threads(1)
RANK, SIZE = hvd.rank(), hvd.size()


def test_it_equals_one_batch_norm_over_all_ranks():
    torch.manual_seed(0)
    everything = torch.randn(3 * SIZE, 5, 4)
    mine = everything[3 * RANK : 3 * RANK + 3].clone().requires_grad_()
    whole = everything.clone().requires_grad_()
    ours, plain = hvd.SyncBatchNorm(5), torch.nn.BatchNorm1d(5)
    weights = torch.randn(3 * SIZE, 5, 4)
    (ours(mine) * weights[3 * RANK : 3 * RANK + 3]).sum().backward()
    (plain(whole) * weights).sum().backward()
    torch.testing.assert_close(mine.grad, whole.grad[3 * RANK : 3 * RANK + 3], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, plain.running_mean)
    torch.testing.assert_close(ours.running_var, plain.running_var)
    torch.testing.assert_close(hvd.allreduce(ours.weight.grad, op=hvd.Sum), plain.weight.grad, rtol=1e-3, atol=1e-4)
    ours.eval(), plain.eval()
    torch.testing.assert_close(ours(mine), plain(mine))
    converted = hvd.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.BatchNorm2d(3), torch.nn.ReLU()))
    assert isinstance(converted[0], hvd.SyncBatchNorm)


def test_evaluation_never_communicates():
    """Also without running statistics: one rank alone may evaluate."""
    for track in (True, False):
        torch.manual_seed(0)
        ours, plain = hvd.SyncBatchNorm(5, track_running_stats=track), torch.nn.BatchNorm1d(5, track_running_stats=track)
        ours.eval(), plain.eval()
        if RANK == 0:
            x = torch.randn(3, 5, 4)
            torch.testing.assert_close(ours(x), plain(x))
    hvd.barrier()


ranks.call_tests(globals())
