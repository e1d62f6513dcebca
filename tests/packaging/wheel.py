"""Build the wheel, install it in a new environment and use it there as a stranger would."""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
SECRET_KEY = "for this check only"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "durable"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
USE_TZ = True
"""
DATA_SUFFIXES = {".html", ".txt", ".css", ".js", ".svg", ".po", ".mo", ".typed"}


def main() -> None:
    """Run the check; ends with a non-zero code at the first failure."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run([sys.executable, "-m", "build", "--outdir", str(work / "dist"), str(ROOT)], cwd=work)
        (wheel,) = (work / "dist").glob("*.whl")
        check_contents(wheel)
        venv.create(work / "venv", with_pip=True)
        python = work / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        run([str(python), "-m", "pip", "install", "--quiet", str(wheel)], cwd=work)
        run([str(python), "-W", "error", "-c", "import durable"], cwd=work)
        site = work / "site"
        site.mkdir()
        (site / "settings.py").write_text(SETTINGS)
        for command in (
            ["check", "--fail-level", "WARNING"],
            ["makemigrations", "--check", "--dry-run"],
            ["migrate", "--verbosity", "0"],
        ):
            arguments = ["-W", "error", "-m", "django", *command, "--settings", "settings", "--pythonpath", "."]
            run([str(python), *arguments], cwd=site)
    print("The wheel can be installed, imported, checked and migrated.")  # noqa: T201 - a command's result


def check_contents(wheel: Path) -> None:
    """End with a message if the wheel lacks a file of the package or holds anything else."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "durable"
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix in {".py", *DATA_SUFFIXES}
    }
    if "durable/py.typed" not in packed:
        sys.exit("The wheel lacks durable/py.typed.")
    if expected != packed:
        sys.exit(f"Not in the wheel: {sorted(expected - packed)}. Only in the wheel: {sorted(packed - expected)}.")


def run(command: list[str], cwd: Path) -> None:
    """Run a command in a folder, away from the sources; ends the check if it fails."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "DJANGO_"))}
    result = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode:
        sys.exit(f"{result.stdout}\nEnded with {result.returncode}: {' '.join(command)}")


if __name__ == "__main__":
    main()
