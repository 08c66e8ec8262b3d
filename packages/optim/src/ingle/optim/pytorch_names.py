"""What the public names of `torch.optim` and of `torch.amp` are called here: data that errors,
documentation and tests share. Names that both have are in no table."""

from ingle.tensor.other_names import answering, table

OPTIM = table("""
SparseAdam: optim.Adam, all gradients are dense
lr_scheduler: optim.schedule, which are learning rates: optim.Adam(model, lr=schedule)
swa_utils: nn.AveragedModel, nn.update_bn
""")

AMP = table("""
GradScaler: optim.LossScaler()
autocast: it.precision("bfloat16"), a block or a decorator
""")
"""Beside `torch.optim`, as they are looked for there."""

SCHEDULES = table("""
LRScheduler: any function of the number of steps
LambdaLR MultiplicativeLR: optim.schedule.Lambda(lr, function)
StepLR: optim.schedule.Step(lr, step_size, gamma)
MultiStepLR: optim.schedule.MultiStep(lr, milestones, gamma)
ConstantLR: optim.schedule.Factor(lr, total_iters, factor)
LinearLR: optim.schedule.Linear(lr, total_iters, start_factor, end_factor)
ExponentialLR: optim.schedule.Exponential(lr, gamma)
SequentialLR: optim.schedule.Sequential(schedules, milestones)
CosineAnnealingLR: optim.schedule.CosineAnnealing(lr, T_max, eta_min); optim.schedule.Cosine stays at its end
ChainedScheduler: optim.schedule.Chain, optim.schedule.Composed
ReduceLROnPlateau: optim.schedule.Plateau(lr, mode, factor, patience)
CyclicLR: optim.schedule.Cyclic(base_lr, max_lr, step_size_up, step_size_down), its momentum() for the momentum
CosineAnnealingWarmRestarts: optim.schedule.WarmRestarts(lr, T_0, T_mult, eta_min)
OneCycleLR: optim.schedule.OneCycle(max_lr, epochs * steps_per_epoch, pct_start), its momentum() for the momentum
PolynomialLR: optim.schedule.Polynomial(lr, total_iters, power)
""")  # noqa: E501

AVERAGES = table("""
get_ema_avg_fn get_ema_multi_avg_fn: nn.AveragedModel(model, decay=0.999)
get_swa_avg_fn get_swa_multi_avg_fn: nn.AveragedModel(model)
SWALR: optim.schedule.Sequential([schedule, optim.schedule.Linear(lr, steps, 1.0, end)], [start])
""")

answering("ingle.optim", OPTIM | AMP | SCHEDULES)
answering("ingle.optim.schedule", SCHEDULES)
