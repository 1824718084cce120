# A GAN after PyTorch's DCGAN tutorial: two backward passes for the discriminator, one for the generator.
import torch
import torch.nn as nn

import xoe.torch as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()
torch.manual_seed(999)


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 0.2)


netG = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh()).apply(weights_init)
netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).apply(weights_init)
for net in (netG, netD):
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerD = hvd.DistributedOptimizer(optimizerD, named_parameters=netD.named_parameters(), backward_passes_per_step=2)
optimizerG = hvd.DistributedOptimizer(optimizerG, named_parameters=netG.named_parameters())
criterion = nn.BCEWithLogitsLoss()

real_data = torch.randn(10, 24, 8).sign() * 0.7
noise_data = torch.randn(10, 24, 4)
losses = []
for real, noise in zip(real_data, noise_data, strict=True):
    real, noise = real[rank::size], noise[rank::size]
    ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)

    optimizerD.zero_grad()
    errD_real = criterion(netD(real), ones)
    errD_real.backward()
    fake = netG(noise)
    errD_fake = criterion(netD(fake.detach()), zeros)
    errD_fake.backward()
    optimizerD.step()

    netD.requires_grad_(False)
    optimizerG.zero_grad()
    errG = criterion(netD(fake), ones)
    errG.backward()
    optimizerG.step()
    netD.requires_grad_(True)
    losses += hvd.allreduce(torch.stack([errD_real + errD_fake, errG]).detach()).tolist()
models = {"netG": netG, "netD": netD}
