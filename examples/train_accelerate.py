"""The training of train_video.py with Accelerate, with the same options.

python examples/train_accelerate.py --videos videos/ --folder run/
accelerate launch examples/train_accelerate.py --videos videos/ --folder run/ --resume
"""

from __future__ import annotations

from pathlib import Path

import framespool as fsp
import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from framespool.torch import for_accelerate, rank_and_world
from train_video import Net, add_clip_arguments, digest, loader_arguments, parser_of


def main() -> None:
    parser = parser_of(__doc__)
    add_clip_arguments(parser)
    parser.add_argument("--folder", type=Path, default=Path("run"), help="folder for checkpoints")
    arguments = parser.parse_args()
    accelerator = Accelerator(
        cpu=arguments.device == "cpu",
        mixed_precision="bf16" if arguments.dtype == "bfloat16" else "no",
        gradient_accumulation_steps=arguments.accumulate,
        project_config=ProjectConfiguration(str(arguments.folder), automatic_checkpoint_naming=True, total_limit=2),
    )
    train, val = (fsp.ClipLoader(**part, **rank_and_world()) for part in loader_arguments(arguments))
    train, val = for_accelerate(train, accelerator), for_accelerate(val, accelerator)

    torch.manual_seed(arguments.seed)
    model = Net(len(train.loader.dataset.classes), arguments.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.02)
    # Accelerate advances the schedule once per process in each step.
    steps = arguments.epochs * -(-len(train) // arguments.accumulate) * accelerator.num_processes
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, arguments.lr, steps)
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    if arguments.resume and (arguments.folder / "checkpoints").is_dir():
        accelerator.load_state()  # the latest one, with the position of the loader and PyTorch's random state

    step = 0
    while train.epoch < arguments.epochs:
        for batch in train:
            with accelerator.accumulate(model):
                logits = model(batch["frames"])
                accelerator.backward(torch.nn.functional.cross_entropy(logits, batch["labels"], label_smoothing=0.05))
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            step += accelerator.sync_gradients
            if accelerator.sync_gradients and step % arguments.save_every == 0:
                accelerator.save_state()
        counts = torch.zeros(2, device=accelerator.device)
        model.eval()
        val.set_epoch(0)  # the same clips each time
        for batch in val:
            with torch.no_grad():
                right = model(batch["frames"]).argmax(1) == batch["labels"]
            own = ~batch["padding"]  # clips that only fill a batch count on another rank
            counts += torch.stack([right[own].sum(), own.sum()])
        model.train()
        right, clips = accelerator.reduce(counts).tolist()
        accelerator.print(f"accuracy {100 * right / clips:.2f} % of {clips:.0f} clips")
    accelerator.print(f"parameters {digest(accelerator.unwrap_model(model))}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
