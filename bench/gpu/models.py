"""The networks that the GPU benchmarks train and serve, in plain PyTorch without downloads."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions, as in He et al. 2016 with the stride on the 3x3."""

    def __init__(self, inner, width, stride):
        super().__init__()
        outer = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer))
        self.shortcut = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        return torch.relu_(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inner, width, stride if block == 0 else 1))
            inner = width * 4
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000)]
    return nn.Sequential(*layers)


class Bert(nn.Module):
    """BERT-base's encoder with a classifier on the first token."""

    def __init__(self, vocabulary=30522, width=768, heads=12, layers=12, length=128):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu",
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens):
        return self.head(self.encoder(self.words(tokens) + self.places)[:, 0])


class Lstm(nn.Module):
    def __init__(self, vocabulary=10000, width=650, layers=2):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.cells = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, 1000)

    def forward(self, tokens):
        return self.head(self.cells(self.words(tokens))[0][:, -1])


def example(name, batch, device, dtype=torch.float32):
    """Returns a network and a batch of random input for it."""
    if name == "resnet50":
        images = torch.randn(batch, 3, 224, 224, device=device, dtype=dtype)
        return (resnet50().to(device, dtype).to(memory_format=torch.channels_last),
                images.to(memory_format=torch.channels_last))
    if name == "bert":
        return Bert().to(device, dtype), torch.randint(0, 30522, (batch, 128), device=device)
    if name == "lstm":
        return Lstm().to(device, dtype), torch.randint(0, 10000, (batch, 35), device=device)
    raise SystemExit(f"no network is called {name}: resnet50, bert or lstm")
