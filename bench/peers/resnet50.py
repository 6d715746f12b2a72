#!/usr/bin/env python3
"""Training steps of ResNet-50 v1.5 by PyTorch, as samples/models/resnet50.c writes it, with the largest memory of the process.

usage: resnet50.py [--batch N] [--steps N] [--channels-last] [--checkpoint]
--checkpoint: each block is computed again before its gradients (torch.utils.checkpoint). torchvision is not needed. The number of threads comes from
OMP_NUM_THREADS.
"""
import argparse
import resource
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def convolution(inputs, outputs, size, stride):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, first):
        super().__init__()
        self.body = nn.Sequential(convolution(inputs, width, 1, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  convolution(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                                  convolution(width, 4 * width, 1, 1), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Sequential(convolution(inputs, 4 * width, 1, stride), nn.BatchNorm2d(4 * width)) if first else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


class Network(nn.Module):
    def __init__(self, again):
        super().__init__()
        self.again = again
        self.first = nn.Sequential(convolution(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                blocks.append(Block(inputs, 64 << stage, 2 if i == 0 and stage > 0 else 1, i == 0))
                inputs = 256 << stage
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.Linear(inputs, 1000)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x) if self.again else block(x)
        return self.last(x.mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--checkpoint", action="store_true")
    options = parser.parse_args()
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    network = Network(options.checkpoint).to(memory_format=layout)
    rule = torch.optim.SGD(network.parameters(), 0.1 * options.batch / 256, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, 224, 224).to(memory_format=layout)
    labels = torch.arange(options.batch) * 37 % 1000
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    for step in range(options.steps):
        begin = time.monotonic()
        loss = nn.functional.cross_entropy(network(images), labels)
        rule.zero_grad(set_to_none=True)
        loss.backward()
        rule.step()
        print(f"step {step + 1}: loss {loss.item():.4f}, {options.batch / (time.monotonic() - begin):.2f} images/s, "
              f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB", flush=True)


if __name__ == "__main__":
    main()
