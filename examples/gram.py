"""G = X^T X of 1,797 handwritten digits, a half on each of two chips, and the sums of its rows in a sub-worker.

All of them read and write the same buffers, and no byte is copied on the way. The sub-worker computes in torch if
that is there, and in numpy if not; the same bits come out.
"""

import argparse
import importlib.util
from pathlib import Path

from bufabi import AccessMode, DataType, MappedArgs, Orchestrator, TaskArgs, TensorArgType, Worker

HERE = Path(__file__).resolve().parent
LIBRARY = "torch" if importlib.util.find_spec("torch") else "numpy"


def row_sums(args: MappedArgs) -> None:
    """Sums each row of its first argument into its second one, where they lie."""
    matrix, sums = args
    if LIBRARY == "torch":
        import torch

        torch.sum(torch.from_dlpack(matrix), 1, out=torch.from_dlpack(sums))
    else:
        import numpy as np

        np.sum(np.asarray(matrix), axis=1, out=np.asarray(sums))


def main() -> None:
    """Runs the tasks, and compares what came out with what has to."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    worker = Worker(level=3, chips=2, subs=1)
    worker.register(row_sums)
    # The workers are forked here: what numpy brings along, threads above all, comes afterwards.
    worker.start()
    import numpy as np

    digits = np.load(HERE / "digits.npy")
    count, size = digits.shape
    x = worker.create_buffer(digits.nbytes, AccessMode.READ)
    g = worker.create_buffer(size * size * 4)
    sums = worker.create_buffer(size * 4)
    x.mapped([count, size], DataType.FLOAT32).numpy()[:] = digits

    def orchestration(orchestrator: Orchestrator) -> None:
        half = size // 2
        for chip in range(2):
            args = TaskArgs()
            args.add_tensor(x.tensor([size, count], DataType.FLOAT32, strides=[1, size]), TensorArgType.INPUT)
            for buffer, rows, tag in ((x, count, TensorArgType.INPUT), (g, size, TensorArgType.OUTPUT_EXISTING)):
                columns = buffer.tensor([rows, half], DataType.FLOAT32, [size, 1], chip * half * 4)
                args.add_tensor(columns, tag)
            orchestrator.submit_next_level("matmul", args, worker=chip)
        args = TaskArgs()
        args.add_tensor(g.tensor([size, size], DataType.FLOAT32), TensorArgType.INPUT)
        args.add_tensor(sums.tensor([size], DataType.FLOAT32), TensorArgType.OUTPUT_EXISTING)
        orchestrator.submit_sub(row_sums, args)

    reports = worker.run(orchestration, timeout=600)
    for buffer, shape, expected in (
        (g, [size, size], "digits-gram.npy"),
        (sums, [size], "digits-gram-rowsums.npy"),
    ):
        found = buffer.mapped(shape, DataType.FLOAT32).numpy()
        if found.tobytes() != np.load(HERE / expected).tobytes():
            raise SystemExit(f"{expected}: something else came out")
        print(f"{expected}: the same bits")
    print(f"{len(reports)} tasks, row sums in {LIBRARY}, {sum(report.bytes_copied for report in reports)} bytes copied")
    del found
    for buffer in (x, g, sums):
        worker.release_buffer(buffer)
    worker.close()


if __name__ == "__main__":
    main()
