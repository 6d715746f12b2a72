"""Every symbol that Muster takes from a foreign library is called in a contract test."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sim = root / "tests" / "sim"
libraries = {
    root / "lib/device/cuda/cuda_api_private.h": sim / "test_contract_driver.c",
    root / "lib/device/cuda/cublas_api_private.h": sim / "test_contract_cublas.c",
    root / "lib/device/cuda/cudnn_api_private.h": sim / "test_contract_cudnn.c",
    root / "lib/device/cuda/nvrtc_api_private.h": sim / "test_contract_nvrtc.c",
    root / "collectives/nccl/nccl_api_private.h": sim / "nccl" / "test_contract_nccl.c",
}
support = (sim / "contract_support.c").read_text()
faults = []
count = 0
for header, test in libraries.items():
    symbols = re.findall(r"^ +X\([^,]+, *(\w+),", header.read_text(), re.MULTILINE)
    if not symbols:
        faults.append(f"{header.name}: no symbols found")
    called = test.read_text() + support
    count += len(symbols)
    for symbol in symbols:
        if not re.search(rf"\b{symbol}\b", called):
            faults.append(f"{test.name}: {symbol} is not called")

print("\n".join(faults) or f"{count} symbols")
sys.exit(1 if faults else 0)
