"""Environment variables: two spellings, typed values, errors that say what is accepted."""

from __future__ import annotations

import pytest

from tilewright import settings


def test_a_setting_that_is_not_set_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_CACHE", raising=False)
    monkeypatch.delenv("PYPTO_CACHE", raising=False)
    assert settings.CACHE.read() is False


def test_the_alias_is_read_and_the_own_spelling_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_CACHE_READONLY", "1")
    assert settings.CACHE_READONLY.read() is True
    monkeypatch.setenv("TILEWRIGHT_CACHE_READONLY", "0")
    assert settings.CACHE_READONLY.read() is False


@pytest.mark.parametrize("value", ["yes", "", "2", "true", " 1"])
def test_a_flag_is_exactly_0_or_1(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", value)
    with pytest.raises(ValueError, match=r"TILEWRIGHT_CACHE=.*0 or 1 is accepted"):
        settings.CACHE.read()


@pytest.mark.parametrize("setting", [settings.EMIT_PTO_LOC, settings.COMPILE_PROFILING])
def test_an_empty_switch_is_off(
    monkeypatch: pytest.MonkeyPatch, setting: settings.Setting[bool]
) -> None:
    for text, is_on in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(f"PYPTO_{setting.name}", text)
        assert setting.read() is is_on
    monkeypatch.setenv(f"PYPTO_{setting.name}", "on")
    with pytest.raises(ValueError, match="0 or 1 is accepted"):
        setting.read()


def test_an_error_names_the_alias_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_COMPILE_PROFILING", "on")
    with pytest.raises(ValueError, match="PYPTO_COMPILE_PROFILING='on'"):
        settings.COMPILE_PROFILING.read()


def test_an_empty_path_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_PROG_BUILD_DIR", "")
    assert settings.PROG_BUILD_DIR.read() is None
    monkeypatch.setenv("TILEWRIGHT_PROG_BUILD_DIR", "a/b")
    assert settings.PROG_BUILD_DIR.read() == "a/b"


def test_a_level_is_one_of_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_VERIFY_LEVEL", "ROUNDTRIP")
    assert settings.VERIFY_LEVEL.read() == "roundtrip"
    monkeypatch.setenv("TILEWRIGHT_VERIFY_LEVEL", "much")
    with pytest.raises(ValueError, match="none or basic or roundtrip"):
        settings.VERIFY_LEVEL.read()


def test_a_count_has_a_least_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "3")
    assert settings.NUM_THREADS.read() == 3
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "-1")
    with pytest.raises(ValueError, match="whole number >= 0"):
        settings.NUM_THREADS.read()


def test_every_setting_says_what_it_means() -> None:
    assert len(settings.settings()) >= 12
    assert all(setting.meaning and setting.accepts for setting in settings.settings())
