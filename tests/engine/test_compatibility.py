"""The engine refuses a Spark that it was not built for, and says what to install."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import tailrace

PROPERTIES = "tailrace/build.properties"


def jar_built_for(spark_version: str, folder: Path) -> Path:
    """The engine's jar, with another Spark version written into it."""
    copy = folder / "engine.jar"
    with zipfile.ZipFile(tailrace.jar()) as original, zipfile.ZipFile(copy, "w") as changed:
        for item in original.infolist():
            data = original.read(item)
            if item.filename == PROPERTIES:
                lines = data.decode().splitlines()
                others = [line for line in lines if not line.startswith("spark.version=")]
                data = "\n".join([*others, f"spark.version={spark_version}", ""]).encode()
            changed.writestr(item, data)
    return copy


def verify(spark: SparkSession, jar: Path) -> None:
    """A provider's first check, in a class loader that sees Spark and this jar only."""
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getSystemClassLoader())
    compatibility = loader.loadClass("tailrace.spark.Compatibility$")
    instance = compatibility.getField("MODULE$").get(None)
    no_classes = gateway.new_array(jvm.java.lang.Class, 0)
    no_objects = gateway.new_array(jvm.java.lang.Object, 0)
    compatibility.getMethod("verify", no_classes).invoke(instance, no_objects)


def test_engine_built_for_another_spark_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        verify(spark, jar_built_for("4.2.1", tmp_path))
    error = caught.value.java_exception.getCause()
    assert error.getClass().getName() == "tailrace.errors.WrongSpark"
    assert "built for Spark 4.2.1" in error.getMessage()
    assert "Install pyspark 4.2.1" in error.getMessage()


def test_engine_built_for_another_patch_release_runs(spark: SparkSession, tmp_path: Path) -> None:
    running = spark.version.rsplit(".", 1)[0]
    verify(spark, jar_built_for(f"{running}.99", tmp_path))
