"""ResNets that torchvision has not, written against the articles, as something that Xoe's are compared with."""

from torch import nn
from torch.nn import functional

# Blocks of each stage.
V2 = {"resnet50_v2": (3, 4, 6, 3), "resnet101_v2": (3, 4, 23, 3), "resnet152_v2": (3, 8, 36, 3)}
CIFAR = {f"resnet{6 * blocks + 2}": blocks for blocks in (3, 5, 7, 9, 18)}


class Unit(nn.Module):
    """A bottleneck of K. He et al., Identity Mappings in Deep Residual Networks, 2016, figure 1 (b)."""

    def __init__(self, before, inner, after, stride, activated):
        super().__init__()
        if not activated:
            self.bn1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, inner, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, after, 1, bias=False)
        if before != after:
            self.downsample = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, images):
        activated = self.bn1(images).relu() if hasattr(self, "bn1") else images
        shortcut = self.downsample(activated) if hasattr(self, "downsample") else images
        inner = self.conv2(self.bn2(self.conv1(activated)).relu())
        return shortcut + self.conv3(self.bn3(inner).relu())


class PreActivation(nn.Module):
    """The first activation stands behind the first convolution, and one more behind the last sum (the article's section 4)."""

    def __init__(self, counts, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for stage, count in enumerate(counts):
            units = []
            for i in range(count):
                after = 256 << stage
                units.append(Unit(before, after // 4, after, 2 if stage and not i else 1, not stage and not i))
                before = after
            setattr(self, f"layer{stage + 1}", nn.Sequential(*units))
        self.bn2 = nn.BatchNorm2d(before)
        self.fc = nn.Linear(before, classes)

    def forward(self, images):
        found = functional.max_pool2d(self.bn1(self.conv1(images)).relu(), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            found = stage(found)
        return self.fc(self.bn2(found).relu().mean((2, 3)))


class Basic(nn.Module):
    """K. He et al., Deep Residual Learning for Image Recognition, 2015, with shortcuts of option A."""

    def __init__(self, before, after):
        super().__init__()
        self.zeros = after - before
        self.conv1 = nn.Conv2d(before, after, 3, 2 if self.zeros else 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)

    def forward(self, images):
        shortcut = images
        if self.zeros:
            half = self.zeros // 2
            shortcut = functional.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, half, half))
        return (self.bn2(self.conv2(self.bn1(self.conv1(images)).relu())) + shortcut).relu()


class Cifar(nn.Module):
    def __init__(self, blocks, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Basic(16, 16) for _ in range(blocks)])
        self.layer2 = nn.Sequential(Basic(16, 32), *[Basic(32, 32) for _ in range(blocks - 1)])
        self.layer3 = nn.Sequential(Basic(32, 64), *[Basic(64, 64) for _ in range(blocks - 1)])
        self.fc = nn.Linear(64, classes)

    def forward(self, images):
        found = self.layer3(self.layer2(self.layer1(self.bn1(self.conv1(images)).relu())))
        return self.fc(found.mean((2, 3)))


def build(name, classes):
    return PreActivation(V2[name], classes) if name in V2 else Cifar(CIFAR[name], classes)
