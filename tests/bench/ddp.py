#!/usr/bin/env python3
"""Times a training step on several ranks: this library's DataParallel over MPI beside PyTorch's
DistributedDataParallel over gloo, on the same processors, one thread per rank, in turn.

    ddp.py [workload ...] [--ranks 2] [--rounds 3] [--steps 5]

Prints the medians in ms: of a step, and of what the exchange of gradients adds to it. For PyTorch that is the
difference to a step without exchange (no_sync); for this library the time that backward waits for the exchange.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import peers

HERE = os.path.dirname(os.path.abspath(__file__))


def worker(rank, name, options):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import torch_peer

    class Loss(torch.nn.Module):  # DistributedDataParallel synchronises what forward() computes
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, *batch):
            return self.model.loss(*batch)

    torch.set_num_threads(1)
    torch.manual_seed(0)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    parts = {}
    torch_peer.trainer = lambda model, batch, items, clip=True: parts.update(model=model, batch=batch) or (None, items)
    torch_peer.WORKLOADS[name]()
    model = DistributedDataParallel(Loss(parts["model"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(*parts["batch"]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    times = {"step": [], "alone": []}
    step()
    for _ in range(options.steps):
        for kind, seconds in times.items():
            dist.barrier()
            start = time.perf_counter()
            if kind == "step":
                step()
            else:
                with model.no_sync():
                    step()
            dist.barrier()
            seconds.append(time.perf_counter() - start)
    if rank == 0:
        whole, alone = (statistics.median(seconds) * 1e3 for seconds in times.values())
        print(json.dumps({"ms": whole, "added_ms": whole - alone}))


def torch_step(name, options):
    command = [sys.executable, __file__, name, "--ranks", str(options.ranks), "--steps", str(options.steps), "--port",
               str(options.port), "--worker"]
    environment = peers.tuned_environment(1)
    ranks = [subprocess.Popen(command + [str(rank)], env=environment, stdout=subprocess.PIPE, text=True)
             for rank in range(options.ranks)]
    outputs = [rank.communicate()[0] for rank in ranks]
    return json.loads(outputs[0])


def own_step(name, options):
    done = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "core", "-n", str(options.ranks),
                           os.path.join(options.bin, "bench"), name, "--threads", "1", "--steps", str(options.steps)],
                          env=dict(peers.own_environment(), OMPI_ALLOW_RUN_AS_ROOT="1",
                                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"), capture_output=True, text=True, check=True)
    line = json.loads(done.stdout.strip().splitlines()[-1])
    return {"ms": line["ms"], "added_ms": line["not_hidden_ms"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=["gpt-baby", "gpt2-124M"])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--port", type=int, default=29511, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        return worker(options.worker, options.workloads[0], options)
    for name in options.workloads:
        rounds = []
        for _ in range(options.rounds):
            rounds.append((own_step(name, options), torch_step(name, options)))
            options.port += 1
        for who, results in zip(("gradus", "PyTorch"), zip(*rounds)):
            print(f"{name:12} {who:8} {statistics.median(r['ms'] for r in results):9.1f} ms a step, of which the exchange "
                  f"adds {statistics.median(r['added_ms'] for r in results):7.1f}", flush=True)
        print(f"{name:12} ratio    {statistics.median(a['ms'] / b['ms'] for a, b in rounds):9.2f}", flush=True)
    return None


if __name__ == "__main__":
    main()
