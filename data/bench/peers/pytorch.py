"""PyTorch's DataLoader over loose files, a worker process for each thread.

pytorch.py torchvision|pil SET [options of measuring.py]
"""

import torch
import torchvision
from measuring import AREA, DEVIATION, MEAN, RATIO, image_files, measure, parse_arguments
from PIL import Image
from torchvision.transforms import v2


class Files(torch.utils.data.Dataset):
    """(pixels, class) of image files."""

    def __init__(self, files, read, transform):
        self.files, self.read, self.transform = files, read, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path, label = self.files[index]
        return self.transform(self.read(path)), label


def read_tensor(path):
    return torchvision.io.decode_jpeg(torchvision.io.read_file(path), mode=torchvision.io.ImageReadMode.RGB)


def read_pil(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def for_tensors(size):
    """Without antialiasing, as all here but PIL, which cannot do without."""
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=AREA, ratio=RATIO, antialias=False),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, DEVIATION),
        ]
    )


def for_pil(size):
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=AREA, ratio=RATIO),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, DEVIATION),
        ]
    )


def main():
    arguments = parse_arguments(["torchvision", "pil"])
    torch.set_num_threads(1)
    read, transform = (read_tensor, for_tensors) if arguments.variant == "torchvision" else (read_pil, for_pil)

    def make_batches():
        loader = torch.utils.data.DataLoader(
            Files(image_files(arguments), read, transform(arguments.image_size)),
            batch_size=arguments.batch,
            shuffle=True,
            num_workers=arguments.threads,
            persistent_workers=True,
            drop_last=True,
        )

        def run():
            while True:
                yield from loader

        return run()

    def touch(batch):
        return batch[0][0, 0, 0, 0], len(batch[0])

    measure(f"PyTorch {arguments.variant}", arguments, make_batches, touch)


if __name__ == "__main__":
    main()
