"""vectordbbench kith ...: the command of its program."""

from typing import Annotated, Unpack

import click

from ....cli.cli import CommonTypedDict, cli, click_parameter_decorators_from_typed_dict, run
from .. import DB
from .config import KithConfig, KithIndexConfig


class KithTypedDict(CommonTypedDict):
    path: Annotated[str, click.option("--path", default="/tmp/kith-vectordb-bench", help="Folder of its files")]
    exact: Annotated[bool, click.option("--exact", is_flag=True, help="Brute force, no graph")]
    max_degree: Annotated[int, click.option("--max-degree", default=64, help="Of the graph")]
    build_list_size: Annotated[int, click.option("--build-list-size", default=128, help="Of the graph")]
    recall: Annotated[float | None, click.option("--recall", type=float, help="To search to; 0.95 without --list-size")]
    list_size: Annotated[int | None, click.option("--list-size", type=int, help="To search by")]


@cli.command()
@click_parameter_decorators_from_typed_dict(KithTypedDict)
def Kith(**parameters: Unpack[KithTypedDict]):
    told = ("exact", "max_degree", "build_list_size", "recall", "list_size")
    run(
        db=DB.Kith,
        db_config=KithConfig(db_label=parameters["db_label"], path=parameters["path"]),
        db_case_config=KithIndexConfig(**{name: parameters[name] for name in told}),
        **parameters,
    )
