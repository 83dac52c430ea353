"""Headers of JMeter's Aggregate and Summary Reports as they are saved, in the languages that JMeter has."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADERS: dict[str, tuple[str, ...]] = {
    "label": ("Label", "Etiqueta", "Libellé", "라벨", "Etykieta", "Rótulo", "Etiket"),
    "samples": (
        "# Samples", "Anz. der Proben", "# Muestras", "# Echantillons", "표본 수", "# Liczba próbek", "# Amostras", "# Örnek", "# 样本", "取樣數",
    ),
    "average_response_ms": ("Average", "Durchschnitt", "Media", "Moyenne", "평균", "Średnia", "Média", "Ortalama", "平均值"),
    "median_response_ms": ("Median", "Mittel", "Mediana", "Médiane", "중간값", "中位数", "中間值"),
    "min_ms": ("Min", "Mín", "최소값", "Minimum", "Mín.", "En Az", "最小值"),
    "max_ms": ("Max", "Máx", "최대값", "Maksimum", "Máx.", "En Çok", "最大值"),
    "std_dev_ms": ("Std. Dev.", "Desv. Estándar", "Ecart type", "표준편차", "Odch. std.", "Desvio Padrão", "标准偏差"),
    "error_share": ("Error %", "% Fehler", "% Error", "% Erreur", "오류 %", "% błędów", "% de Erro", "Hata %", "异常 %", "錯誤率"),
    "throughput_per_s": (
        "Throughput", "Durchsatz", "Rendimiento", "Débit", "처리량", "Przepustowość", "Vazão", "Transfer Oranı", "吞吐量", "處理量",
    ),
}  # fmt: skip
"""Column → its names in JMeter 5.6: English, German, Spanish, French, Korean, Polish, Portuguese, Turkish and
Chinese. JMeter's Japanese and Norwegian texts leave these columns in English."""
_COLUMN = {header: column for column, headers in _HEADERS.items() for header in headers}
_PERCENTILE = re.compile(r"(\d+(?:[.,]\d+)?) ?% ?(?:Line|centile|선|linii|百分位)")


def plain_headers(names: Sequence[str]) -> list[str]:
    """Return the names of a saved report's columns with their units; those of any other table unchanged."""
    columns = {_COLUMN.get(name) for name in names}
    if not {"samples", "average_response_ms"} <= columns:
        return list(names)
    found = []
    for name in names:
        percentile = _PERCENTILE.fullmatch(name)
        plain = f"p{percentile[1].replace(',', '.')}_ms" if percentile else _COLUMN.get(name, name)
        found.append(name if plain in found else plain)
    return found
