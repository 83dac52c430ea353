"""Which CSV files are tables of results: JMeter's saved reports and Locust's summary; and which are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from svload import api
from svload.model.errors import SvloadError
from svload.tables.reading import read_table_file

REPORTS = {
    "English": "Label,# Samples,Average,Median,90% Line,Min,Max,Error %,Throughput",
    "German": "Label;Anz. der Proben;Durchschnitt;Mittel;90% Line;Min;Max;% Fehler;Durchsatz",
    "French": "Libellé,# Echantillons,Moyenne,Médiane,90% centile,Min,Max,% Erreur,Débit",
    "Spanish": "Etiqueta;# Muestras;Media;Mediana;90% Line;Mín;Máx;% Error;Rendimiento",
    "Portuguese": "Rótulo;# Amostras;Média;Mediana;90% Line;Mín.;Máx.;% de Erro;Vazão",
    "Chinese": "Label,# 样本,平均值,中位数,90% 百分位,最小值,最大值,异常 %,吞吐量",
    "Chinese of Taiwan": "Label,取樣數,平均值,中間值,90% Line,最小值,最大值,錯誤率,處理量",
}


@pytest.mark.parametrize("language", REPORTS)
def test_a_saved_report_in_its_language(language: str, tmp_path: Path) -> None:
    header = REPORTS[language]
    sign = ";" if ";" in header else ","
    mark = "," if sign == ";" else "."
    row = sign.join(["Start 你好", "1200", "20", "18", "31", "5", "640", f"0{mark}25%", f"12{mark}5"])
    path = tmp_path / "report.csv"
    path.write_text(f"{header}\n{row}\n", encoding="utf-8")
    table = read_table_file(path)
    assert table.quantity("requests") == [1200.0]
    assert table.quantity("response") == [0.02]
    assert table.quantity("throughput") == [12.5]
    assert table.numbers("p90_ms") == [31.0] and table.columns["label"] == ("Start 你好",)


def test_a_table_with_some_of_these_words_keeps_its_names(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("Median,Throughput,users\n1,2,3\n", encoding="utf-8")
    assert list(read_table_file(path).columns) == ["Median", "Throughput", "users"]


@pytest.mark.parametrize(
    "text",
    ["name,city\nAnn,Bonn\n", "id;when;what\n1;2026-01-01;login\n", "a\tb\n1\t2\n"],
)
def test_a_csv_without_results_is_refused_with_what_could_be_imported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(text, encoding="utf-8")
    assert api.are_tables([str(path)])
    with pytest.raises(SvloadError, match="no check of tables knows a column of it") as raised:
        api.check_tables([str(path)])
    assert "NAME_stats_history.csv" in str(raised.value) and "results.jtl" in str(raised.value)
    assert raised.value.exit_code == 2


def test_locusts_summary_asks_for_its_history(tmp_path: Path) -> None:
    path = tmp_path / "load_stats.csv"
    path.write_text("Type,Name,Request Count,Average Response Time\nGET,/,1,5.5\n", encoding="utf-8")
    (sentence,) = api.better_files([str(path)])
    assert "load_stats_history.csv" in sentence
    own = tmp_path / "own.csv"
    own.write_text("users,throughput_per_s\n1,2\n", encoding="utf-8")
    assert api.better_files([str(own)]) == []
