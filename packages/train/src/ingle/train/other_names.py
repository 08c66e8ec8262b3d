"""What Lightning and torchmetrics call what is here."""

from ingle.tensor.other_names import answering, table

OTHERS = table("""
Trainer: Learner(model, optimizer, loss).fit(batches, epochs=5, valid=batches)
LightningModule: nn.Module, and Learner(model, optimizer, loss); Learner.forward for another step
ModelCheckpoint: Learner(..., checkpoints=CheckpointStore(folder, keep=3, monitor="valid/loss"))
LearningRateMonitor: the rate is in every record, as "lr"
StochasticWeightAveraging EMAWeightAveraging: WeightAverage(model)
SummaryWriter: TensorBoardLogger(folder)
F1Score F1: FBeta()
JaccardIndex: IoU()
MeanAbsoluteError: MAE()
MeanSquaredError: MSE()
R2Score: R2()
BLEUScore: BLEU()
ROUGEScore: ROUGE()
PeakSignalNoiseRatio: PSNR()
StructuralSimilarityIndexMeasure: SSIM()
FrechetInceptionDistance: FID(net)
""")

answering("ingle.train", OTHERS)
