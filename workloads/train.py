"""Training tasks: ResNet-50, BERT-base, GPT-2 and an LSTM, in bf16, with random data.

Eager, or with --compile through torch.compile. Commands come on standard input, one a line: `load`
makes the network and warms it up (the first `run` does, too), `run` and `pause` start and stop the
training, `quit` ends the program. The end of standard input only ends the commands. Output:
`loaded` and `ready` once, `paused` after each pause (also of a paused task), and for each window of
--window seconds `t START END samples/s N`, on CLOCK_MONOTONIC, so that a reader can select the time
in which another program ran. The task also pauses while the file --pause-file exists; --run starts
without a command.
"""

import argparse
import os
import select
import sys
import time

TASKS = {"resnet50": 128, "bert": 32, "gpt2": 8, "lstm": 64}  # and their batches
GPT2_LENGTH = 512
STEPS_PER_SYNC = 4


def make_step(options):
    """Returns functions: one trains a step, one waits for the device, one frees memory."""
    import torch
    import torch.nn.functional as F

    import nets
    batch = options.batch
    make = {"resnet50": lambda: nets.resnet50(batch, options.tiny),
            "bert": lambda: nets.bert(batch, 128, options.tiny),
            "gpt2": lambda: nets.gpt2(batch, GPT2_LENGTH, options.tiny),
            "lstm": lambda: nets.lstm(batch, options.tiny)}[options.model]
    with torch.device(options.device):
        net, data = make()
    is_language = options.model == "gpt2"
    labels = data.flatten() if is_language else \
        torch.randint(0, 1000, (batch,), device=options.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    forward = torch.compile(net) if options.compile else net

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, dtype=torch.bfloat16):
            scores = forward(data)
            loss = F.cross_entropy(scores.flatten(0, 1) if is_language else scores, labels)
        loss.backward()
        optimizer.step()

    def wait():
        if options.device == "cuda":
            torch.cuda.current_stream().synchronize()

    def free():
        """Frees the memory that only a step needs, so that paused tasks leave room."""
        optimizer.zero_grad(set_to_none=True)
        if options.device == "cuda":
            torch.cuda.empty_cache()

    for _ in range(6):
        step()
    wait()
    free()
    return step, wait, free


def make_stand_in():
    from standin import Kernels
    kernels = Kernels()

    def step():
        for _ in range(8):
            kernels.launch(400)
    return step, kernels.wait, lambda: None


class Commands:
    """Lines of standard input, read without waiting while the task runs."""

    def __init__(self, options):
        self.file, self.options = options.pause_file, options
        self.wants_run, self.wants_load = options.run, False
        self.is_over, self.is_open = False, True
        self.rest, self.owes_answer = b"", False

    def read(self, seconds):
        if not self.is_open:
            time.sleep(seconds)
            return
        if not select.select([0], [], [], seconds)[0]:
            return
        data = os.read(0, 4096)
        self.is_open = bool(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            word = line.strip().decode()
            self.wants_load |= word in ("load", "run")
            self.wants_run = word == "run" if word in ("run", "pause") else self.wants_run
            self.owes_answer |= word == "pause"
            self.is_over |= word == "quit"

    def is_running(self):
        return self.wants_run and not self.is_over and not (self.file and
                                                            os.path.exists(self.file))


def say(text):
    print(text, flush=True)


def train(commands, step, wait, options):
    """Trains until the next pause."""
    while commands.is_running():
        start, steps = time.monotonic(), 0
        while time.monotonic() - start < options.window and commands.is_running():
            for _ in range(STEPS_PER_SYNC):
                step()
            steps += STEPS_PER_SYNC
            # Like a loop that logs its loss, so the host is never far ahead of the device.
            wait()
            commands.read(0)
        spent = time.monotonic() - start
        say(f"t {start:.4f} {start + spent:.4f} samples/s {steps * options.batch / spent:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=TASKS, default="resnet50")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--window", type=float, default=0.5)
    parser.add_argument("--pause-file", default="")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small network, for tests")
    parser.add_argument("--stand-in", action="store_true",
                        help="kernels of gpumux-burn in place of the network")
    options = parser.parse_args()
    options.batch = options.batch or (4 if options.tiny else TASKS[options.model])
    if not options.stand_in:
        import torch  # noqa: F401  before the device is used, because it takes seconds
    say("loaded")
    commands = Commands(options)
    while not commands.is_over and not commands.wants_load and not commands.wants_run:
        commands.read(60)
    if commands.is_over:
        return
    step, wait, free = make_stand_in() if options.stand_in else make_step(options)
    say("ready")
    is_paused = True
    while not commands.is_over and (commands.is_open or commands.wants_run):
        if commands.is_running():
            is_paused = False
            train(commands, step, wait, options)
            free()
        elif not is_paused or commands.owes_answer:
            is_paused, commands.owes_answer = True, False
            say("paused")
        else:
            commands.read(60 if not options.pause_file else 0.02)


if __name__ == "__main__":
    main()
