"""Trains a small network on one process: is a point inside the circle or outside?"""

import torch

torch.manual_seed(1)
points = torch.rand(4096, 2) * 2 - 1
inside = (points.square().sum(1) < 0.5).long()
data = torch.utils.data.TensorDataset(points, inside)
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)

model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

for epoch in range(8):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    accuracy = (model(points).argmax(1) == inside).float().mean()
    print(f"epoch {epoch}: accuracy {accuracy:.3f}")
