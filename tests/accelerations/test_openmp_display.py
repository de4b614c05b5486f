"""What OpenMP runtimes print of themselves, in GNU's grammar and in Intel's."""

from __future__ import annotations

from accel.techniques.started.displayed import displayed

GNU = """
OPENMP DISPLAY ENVIRONMENT BEGIN
  _OPENMP = '201511'
  OMP_DYNAMIC = 'FALSE'
  OMP_PLACES = ''
  OMP_PROC_BIND = 'CLOSE'
OPENMP DISPLAY ENVIRONMENT END
"""
INTEL = """
OPENMP DISPLAY ENVIRONMENT BEGIN
   _OPENMP='202111'
  [host] OMP_PLACES: value is not defined
  [host] OMP_PROC_BIND='false'
  [host] KMP_BLOCKTIME='1ms
OPENMP DISPLAY ENVIRONMENT END
"""


def test_settings_of_each_runtime_that_was_loaded():
    gnu, intel = displayed(f"a warning\n{GNU}more\n{INTEL}")
    assert gnu.settings == {
        "_OPENMP": "201511",
        "OMP_DYNAMIC": "FALSE",
        "OMP_PLACES": "",
        "OMP_PROC_BIND": "CLOSE",
    }
    assert intel.settings == {"_OPENMP": "202111", "OMP_PROC_BIND": "false", "KMP_BLOCKTIME": "1ms"}
    assert (gnu.is_intel, intel.is_intel) == (False, True)


def test_a_block_that_was_cut_off_and_other_output_give_nothing():
    assert displayed("") == displayed(GNU.replace("DISPLAY ENVIRONMENT END", "")) == ()
