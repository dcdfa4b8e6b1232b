"""Networks of the services and tasks in this folder: plain PyTorch, random weights, no downloads.

ResNet-50, BERT-base and the LSTM come from bench/gpu/models.py. Every function here returns a
network and a batch of random input, on the host. `tiny` makes both small enough for a test without
a GPU.
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench/gpu"))
import models  # noqa: E402


class Conv(nn.Sequential):
    """A convolution, batch normalisation and an activation."""

    def __init__(self, inner, outer, size=1, stride=1, padding=None, activation=nn.ReLU):
        if padding is None:
            padding = size // 2 if isinstance(size, int) else tuple(s // 2 for s in size)
        super().__init__(nn.Conv2d(inner, outer, size, stride, padding, bias=False),
                         nn.BatchNorm2d(outer), activation(inplace=True))


def folded(net):
    """Folds batch normalisation into the convolutions, as servers do; the net is for inference."""
    for module in net.modules():
        if isinstance(module, Conv):
            module[0] = torch.nn.utils.fusion.fuse_conv_bn_eval(module[0].eval(), module[1].eval())
            module[1] = nn.Identity()
    return net.to(memory_format=torch.channels_last)


def images(batch, size):
    return torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)


def resnet50(batch, tiny):
    net = models.resnet50() if not tiny else nn.Sequential(
        Conv(3, 8, 3, 2), models.Bottleneck(8, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, 1000))
    return net.to(memory_format=torch.channels_last), images(batch, 32 if tiny else 224)


# ---- Inception v3, Szegedy et al. 2016, without the auxiliary classifier ----

class Branches(nn.Module):
    """Concatenates the outputs of its branches."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def pooled(inner, outer):
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(inner, outer))


def inception_35(inner, pool):
    return Branches(
        Conv(inner, 64), nn.Sequential(Conv(inner, 48), Conv(48, 64, 5)),
        nn.Sequential(Conv(inner, 64), Conv(64, 96, 3), Conv(96, 96, 3)), pooled(inner, pool))


def inception_17(inner, width):
    row, column = (1, 7), (7, 1)
    return Branches(
        Conv(inner, 192),
        nn.Sequential(Conv(inner, width), Conv(width, width, row), Conv(width, 192, column)),
        nn.Sequential(Conv(inner, width), Conv(width, width, column), Conv(width, width, row),
                      Conv(width, width, column), Conv(width, 192, row)), pooled(inner, 192))


def inception_8(inner):
    def pair():
        return Branches(Conv(384, 384, (1, 3)), Conv(384, 384, (3, 1)))
    return Branches(
        Conv(inner, 320), nn.Sequential(Conv(inner, 384), pair()),
        nn.Sequential(Conv(inner, 448), Conv(448, 384, 3), pair()), pooled(inner, 192))


def inception_v3(batch, tiny):
    if tiny:
        net = nn.Sequential(Conv(3, 8, 3, 4), inception_35(8, 32), nn.AdaptiveAvgPool2d(1),
                            nn.Flatten(), nn.Linear(256, 1000))
        return folded(net), images(batch, 32)
    grids = (
        Branches(Conv(288, 384, 3, 2, 0), nn.Sequential(
            Conv(288, 64), Conv(64, 96, 3), Conv(96, 96, 3, 2, 0)), nn.MaxPool2d(3, 2)),
        Branches(nn.Sequential(Conv(768, 192), Conv(192, 320, 3, 2, 0)), nn.Sequential(
            Conv(768, 192), Conv(192, 192, (1, 7)), Conv(192, 192, (7, 1)),
            Conv(192, 192, 3, 2, 0)), nn.MaxPool2d(3, 2)))
    net = nn.Sequential(
        Conv(3, 32, 3, 2, 0), Conv(32, 32, 3, 1, 0), Conv(32, 64, 3), nn.MaxPool2d(3, 2),
        Conv(64, 80), Conv(80, 192, 3, 1, 0), nn.MaxPool2d(3, 2),
        inception_35(192, 32), inception_35(256, 64), inception_35(288, 64), grids[0],
        inception_17(768, 128), inception_17(768, 160), inception_17(768, 160),
        inception_17(768, 192), grids[1], inception_8(1280), inception_8(2048),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    return folded(net), images(batch, 299)


# ---- a detector shaped like YOLOv8-s: backbone, pyramid and three heads ----

class Split(nn.Module):
    """A stage in which half of the channels pass through residual blocks."""

    def __init__(self, inner, outer, blocks):
        super().__init__()
        self.enter = Conv(inner, outer, activation=nn.SiLU)
        self.blocks = nn.ModuleList(nn.Sequential(
            Conv(outer // 2, outer // 2, 3, activation=nn.SiLU),
            Conv(outer // 2, outer // 2, 3, activation=nn.SiLU)) for _ in range(blocks))
        self.leave = Conv((2 + blocks) * outer // 2, outer, activation=nn.SiLU)

    def forward(self, x):
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class Detector(nn.Module):
    def __init__(self, width):
        super().__init__()
        def down(inner, outer):
            return Conv(inner, outer, 3, 2, activation=nn.SiLU)
        w = width
        self.low = nn.Sequential(down(3, w), down(w, 2 * w), Split(2 * w, 2 * w, 1),
                                 down(2 * w, 4 * w), Split(4 * w, 4 * w, 2))
        self.middle = nn.Sequential(down(4 * w, 8 * w), Split(8 * w, 8 * w, 2))
        self.high = nn.Sequential(down(8 * w, 16 * w), Split(16 * w, 16 * w, 1))
        self.up_middle, self.up_low = Split(24 * w, 8 * w, 1), Split(12 * w, 4 * w, 1)
        self.to_middle, self.down_middle = down(4 * w, 4 * w), Split(12 * w, 8 * w, 1)
        self.to_high, self.down_high = down(8 * w, 8 * w), Split(24 * w, 16 * w, 1)
        self.heads = nn.ModuleList(
            nn.Sequential(Conv(inner, 4 * w, 3, activation=nn.SiLU),
                          Conv(4 * w, 4 * w, 3, activation=nn.SiLU), nn.Conv2d(4 * w, 144, 1))
            for inner in (4 * w, 8 * w, 16 * w))

    def forward(self, x):
        low = self.low(x)
        middle = self.middle(low)
        high = self.high(middle)
        p4 = self.up_middle(torch.cat([F.interpolate(high, scale_factor=2.0), middle], 1))
        p3 = self.up_low(torch.cat([F.interpolate(p4, scale_factor=2.0), low], 1))
        n4 = self.down_middle(torch.cat([self.to_middle(p3), p4], 1))
        n5 = self.down_high(torch.cat([self.to_high(n4), high], 1))
        return torch.cat([head(level).flatten(2) for head, level in
                          zip(self.heads, (p3, n4, n5))], 2)


def yolo(batch, tiny):
    net = Detector(4 if tiny else 32)
    return folded(net), images(batch, 64 if tiny else 640)


# ---- transformers ----

class Attention(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.enter(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.leave(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    """A layer of GPT-2 (normalised before, causal) or of BERT (normalised after)."""

    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.is_before = is_causal
        self.attention = Attention(width, heads, is_causal)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        if self.is_before:
            x = x + self.attention(self.norms[0](x))
            return x + self.mlp(self.norms[1](x))
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.mlp(x))


class Transformer(nn.Module):
    """Returns the scores of `classes` for the first token (BERT) or for every token (GPT-2)."""

    def __init__(self, vocabulary, width, heads, layers, length, is_causal, classes):
        super().__init__()
        self.is_causal = is_causal
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(Block(width, heads, is_causal) for _ in range(layers))
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places
        if not self.is_causal:
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if self.is_causal else self.head(x[:, 0])


def transformer(batch, length, tiny, vocabulary, width, heads, layers, is_causal, classes=None):
    if tiny:
        vocabulary, width, heads, layers, length = 100, 32, 2, 2, 16
    net = Transformer(vocabulary, width, heads, layers, length, is_causal, classes or vocabulary)
    return net, torch.randint(0, vocabulary, (batch, length))


def gpt2(batch, length, tiny):
    """GPT-2 small: 124 million parameters."""
    return transformer(batch, length, tiny, 50257, 768, 12, 12, True)


def bert(batch, length, tiny):
    """BERT-base with a classifier."""
    return transformer(batch, length, tiny, 30522, 768, 12, 12, False, 1000)


def roberta(batch, length, tiny):
    """RoBERTa-large with a classifier."""
    return transformer(batch, length, tiny, 50265, 1024, 16, 24, False, 1000)


# ---- a decoder shaped like Llama 3.2 1B, one token a step ----

class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)


class DecoderLayer(nn.Module):
    """Queries, keys and values come from one product, as do gate and up."""

    def __init__(self, width, heads, groups, inner, length):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norms = nn.ModuleList([RmsNorm(width), RmsNorm(width)])
        self.qkv = nn.Linear(width, width + 2 * groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate_up, self.down = (nn.Linear(width, 2 * inner, bias=False),
                                   nn.Linear(inner, width, bias=False))
        self.register_buffer("keys", torch.zeros(1, groups, length, self.size))
        self.register_buffer("values", torch.zeros(1, groups, length, self.size))

    def forward(self, x, at, cosine, sine):
        parts = self.qkv(self.norms[0](x)).view(1, self.heads + 2 * self.groups, 1, self.size)
        rotated = parts[:, :self.heads + self.groups]
        low, high = rotated.chunk(2, -1)
        rotated = torch.addcmul(rotated * cosine, torch.cat([-high, low], -1), sine)
        self.keys[:, :, at:at + 1] = rotated[:, self.heads:]
        self.values[:, :, at:at + 1] = parts[:, self.heads + self.groups:]
        y = F.scaled_dot_product_attention(rotated[:, :self.heads], self.keys[:, :, :at + 1],
                                           self.values[:, :, :at + 1], enable_gqa=True)
        x = x + self.o(y.reshape(1, 1, -1))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    """forward(token, at): the next token after the one at the place `at` of the cache."""

    def __init__(self, vocabulary, width, heads, groups, inner, layers, length):
        super().__init__()
        self.length = length
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, groups, inner, length)
                                    for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight
        size = width // heads
        angles = torch.outer(torch.arange(length).float(),
                             500000.0 ** (-torch.arange(0, size, 2).float() / size))
        self.register_buffer("cosine", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sine", torch.cat([angles, angles], -1).sin())

    def forward(self, token, at):
        x = self.words(token)
        cosine, sine = self.cosine[at], self.sine[at]
        for layer in self.layers:
            x = layer(x, at, cosine, sine)
        return self.head(self.norm(x))[:, -1].argmax(-1, keepdim=True)


def decoder(tiny):
    """1.2 billion parameters; returns the network and a first token."""
    net = Decoder(100, 32, 4, 2, 64, 2, 64) if tiny else \
        Decoder(128256, 2048, 32, 8, 8192, 16, 512)
    return net, torch.zeros(1, 1, dtype=torch.long)


def lstm(batch, tiny):
    net = models.Lstm(100, 32) if tiny else models.Lstm()
    return net, torch.randint(0, 100, (batch, 35))
