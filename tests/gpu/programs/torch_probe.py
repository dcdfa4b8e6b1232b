"""PyTorch: torch_probe.py eager|graph|compile|workers|two|shared. See probe.py."""

import os
import subprocess
import sys

import probe

try:
    import torch
    from torch import nn
except ImportError as problem:
    probe.skip(f"PyTorch is not here: {problem}")
if not torch.cuda.is_available():
    probe.skip("PyTorch sees no device")


def total_bytes():
    total = torch.cuda.mem_get_info()[1]
    properties = torch.cuda.get_device_properties(0).total_memory
    return max(total, properties)


def take(count):
    block = torch.empty(count, dtype=torch.uint8, device="cuda")
    del block
    torch.cuda.empty_cache()


def train(wrap=lambda net: net, batches=None, steps=5):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.LayerNorm(1024),
                        nn.Linear(1024, 10)).cuda()
    model = wrap(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    data = batches or [torch.randn(256, 512) for _ in range(steps)]
    losses = []
    for batch in data:
        loss = model(batch.cuda(non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def eager():
    return train()


def compiled():
    return train(wrap=torch.compile)


def graph():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda().eval()
    data = torch.randn(256, 512, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            net(data)
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        output = net(data)
    results = []
    for i in range(5):
        data.fill_(i / 4)
        captured.replay()
        results.append(output.float().sum().item())
    return results


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        return torch.sin(torch.arange(256 * 512, dtype=torch.float32) * (i + 1)).reshape(256, 512)


def workers():
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=None, num_workers=2, pin_memory=True)
    return train(batches=list(loader))


def two():
    """A second process of the same workload holds memory too: the sum counts."""
    result = train()
    if os.environ.get("PROBE_CHILD"):
        return result
    part = probe.BYTES // 2
    block = torch.empty(part, dtype=torch.uint8, device="cuda")
    child = subprocess.run([sys.executable, __file__, "two"], capture_output=True, text=True,
                           timeout=120, check=True,
                           env=dict(os.environ, PROBE_CHILD="1", PROBE_BYTES=str(part),
                                    PROBE_HOLD_S="0"))
    del block
    torch.cuda.empty_cache()
    answer = probe.json.loads(child.stdout.splitlines()[-1])
    if os.environ.get("PROBE_QUOTA") and not answer["oom"]:
        raise SystemExit("two processes took more than their workload's quota")
    if answer["result"] != answer["again"]:
        raise SystemExit("the second process did not go on")
    return result + answer["result"]


def child_of_shared(queue, back):
    torch.ones(1, device="cuda").sum().item()  # creates the context and loads the kernel first
    before = torch.cuda.mem_get_info()[0]
    tensor = queue.get(timeout=60)
    back.put((tensor.sum().item(), before, *torch.cuda.mem_get_info()))
    del tensor


def shared():
    """A tensor shared with another process through CUDA is counted once."""
    import torch.multiprocessing as processes
    context = processes.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    block = torch.ones(1 << 28, device="cuda")  # 1 GiB
    child = context.Process(target=child_of_shared, args=(queue, back))
    child.start()
    queue.put(block)
    result, before, free, total = back.get(timeout=120)
    child.join(60)
    if before - free > block.nbytes // 2:
        raise SystemExit(f"the child has {free} bytes free, and had {before} before it got "
                         "what its parent holds")
    if free > total - block.nbytes:
        raise SystemExit(f"the child has {free} bytes free beside what its parent holds")
    del block
    torch.cuda.empty_cache()
    return [result]


if __name__ == "__main__":
    probe.run({"eager": eager, "graph": graph, "compile": compiled, "workers": workers, "two": two,
               "shared": shared}[sys.argv[1]], total_bytes, take)
