//! `svload._native`: the engine and the truth server for Python. It converts; it decides nothing.

use std::os::fd::RawFd;

use indexmap::IndexMap;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use svload_engine::{Column, ErrorKind, RunError, Table};

/// Runs a share and returns its tables (engine/docs/calls.md).
///
/// Raises ValueError for a share that cannot be run, OSError for a machine that refuses; an exception out of the sink
/// stops the load and is raised.
#[pyfunction]
fn run_share<'py>(
    py: Python<'py>,
    share: &str,
    inputs: &Bound<'py, PyDict>,
    sink: Py<PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let inputs = read_tables(inputs)?;
    let mut tell = |text: &str| Python::attach(|py| sink.call1(py, (text,)).map(drop));
    let outcome = py.detach(|| svload_engine::run_share(share, &inputs, &mut tell));
    let tables = outcome.map_err(|error| match error {
        RunError::Sink(raised) => raised,
        RunError::Os { doing, source } => match source.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, format!("{doing}: {source}"))),
            None => PyOSError::new_err(format!("{doing}: {source}")),
        },
        error @ RunError::Share { .. } => PyValueError::new_err(error.to_string()),
        error @ RunError::Defect(_) => PyRuntimeError::new_err(error.to_string()),
    })?;
    write_tables(py, &tables)
}

/// Plays a share in virtual time, every request taking `service_ns`: by group, the requests that begin
/// (engine/docs/calls.md). Raises ValueError for a share that cannot be run.
#[pyfunction]
fn rehearse<'py>(
    py: Python<'py>,
    share: &str,
    inputs: &Bound<'py, PyDict>,
    service_ns: i64,
) -> PyResult<Bound<'py, PyDict>> {
    let inputs = read_tables(inputs)?;
    let played = py.detach(|| svload_engine::rehearse(share, &inputs, service_ns));
    let tables = played
        .map_err(|fault| PyValueError::new_err(format!("{}: {}", fault.field, fault.problem)))?;
    write_tables(py, &tables)
}

/// What of a share cannot be run, as (field, problem), found without running it; None if it can be
/// (engine/docs/calls.md). Raises TypeError and ValueError for inputs that are no columns.
#[pyfunction]
fn share_fault(share: &str, inputs: &Bound<'_, PyDict>) -> PyResult<Option<(String, String)>> {
    let inputs = read_tables(inputs)?;
    let fault = svload_engine::share_fault(share, &inputs);
    Ok(fault.map(|fault| (fault.field, fault.problem)))
}

/// The rows of `inputs`, whole tables or parts of them, that requests encode for their place: (request, field, feeder, column, rows)
/// of each (engine/docs/calls.md). Raises ValueError for a share that cannot be read.
#[pyfunction]
fn changed_rows(share: &str, inputs: &Bound<'_, PyDict>) -> PyResult<Vec<ChangedRows>> {
    let inputs = read_tables(inputs)?;
    let found = svload_engine::changed_rows(share, &inputs)
        .map_err(|fault| PyValueError::new_err(format!("{}: {}", fault.field, fault.problem)))?;
    let told = found.into_iter();
    Ok(told
        .map(|one| (one.request, one.field, one.feeder, one.column, one.rows))
        .collect())
}

type ChangedRows = (String, &'static str, String, String, Vec<u64>);

/// Error names in code order; the index is the code, 0 = "".
#[pyfunction]
fn error_names() -> Vec<&'static str> {
    ErrorKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// Runs the truth server until `stop_fd` is readable; returns its final counters as JSON (engine/docs/calls.md).
#[cfg(feature = "truth")]
#[pyfunction]
fn truth_serve(py: Python<'_>, config: &str, ready_fd: RawFd, stop_fd: RawFd) -> PyResult<String> {
    py.detach(|| svload_truth::serve(config, ready_fd, stop_fd))
        .map_err(PyValueError::new_err)
}

/// Says that this build has no truth server.
#[cfg(not(feature = "truth"))]
#[pyfunction]
fn truth_serve(_config: &str, _ready_fd: RawFd, _stop_fd: RawFd) -> PyResult<String> {
    Err(PyRuntimeError::new_err(
        "this build of svload._native has no truth server (cargo feature `truth`)",
    ))
}

fn read_tables(tables: &Bound<'_, PyDict>) -> PyResult<IndexMap<String, Table>> {
    tables
        .iter()
        .map(|(name, table)| {
            let name: String = name.extract()?;
            let columns = table.cast::<PyDict>()?.iter().map(|(column, data)| {
                let column: String = column.extract()?;
                let data = read_column(&data, &format!("inputs.{name}.{column}"))?;
                Ok((column, data))
            });
            let table = columns.collect::<PyResult<Table>>()?;
            Ok((name, table))
        })
        .collect()
}

fn read_column(data: &Bound<'_, PyAny>, field: &str) -> PyResult<Column> {
    let (code, values): (String, Bound<'_, PyAny>) = data.extract().map_err(|_| {
        PyTypeError::new_err(format!(
            "{field}: must be a tuple (type code, bytes or list)"
        ))
    })?;
    if code == "utf8" {
        return Ok(Column::Utf8(values.extract()?));
    }
    let bytes: &[u8] = values.extract()?;
    Column::from_bytes(&code, bytes).ok_or_else(|| {
        PyValueError::new_err(format!(
            "{field}: is no {code:?} column (u64, i64, u32, u16, u8, utf8), or cut short"
        ))
    })
}

fn write_tables<'py>(
    py: Python<'py>,
    tables: &IndexMap<String, Table>,
) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    for (name, table) in tables {
        let columns = PyDict::new(py);
        for (column, data) in table {
            let values: Bound<'py, PyAny> = match (data, data.to_bytes()) {
                (Column::Utf8(texts), _) => PyList::new(py, texts)?.into_any(),
                (_, bytes) => PyBytes::new(py, &bytes.unwrap_or_default()).into_any(),
            };
            let code = data.code().into_pyobject(py)?.into_any();
            columns.set_item(column, PyTuple::new(py, [code, values])?)?;
        }
        result.set_item(name, columns)?;
    }
    Ok(result)
}

/// The native part of svload.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_share, module)?)?;
    module.add_function(wrap_pyfunction!(rehearse, module)?)?;
    module.add_function(wrap_pyfunction!(share_fault, module)?)?;
    module.add_function(wrap_pyfunction!(changed_rows, module)?)?;
    module.add_function(wrap_pyfunction!(error_names, module)?)?;
    module.add_function(wrap_pyfunction!(truth_serve, module)?)?;
    Ok(())
}
