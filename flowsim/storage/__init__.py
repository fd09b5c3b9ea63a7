"""Files that are whole or absent, readers that never run what they read, result folders."""

from flowsim.storage.folder import SUMMARY as SUMMARY
from flowsim.storage.folder import claimed as claimed
from flowsim.storage.folder import is_finished as is_finished
from flowsim.storage.folder import open_folder as open_folder
from flowsim.storage.folder import remove_temporaries as remove_temporaries
from flowsim.storage.reading import UnreadableError as UnreadableError
from flowsim.storage.reading import read_json as read_json
from flowsim.storage.reading import read_netcdf as read_netcdf
from flowsim.storage.reading import read_npz as read_npz
from flowsim.storage.reading import read_text as read_text
from flowsim.storage.reading import read_toml as read_toml
from flowsim.storage.reading import reading_errors as reading_errors
from flowsim.storage.streaming import text_pieces as text_pieces
from flowsim.storage.weights import load_weights as load_weights
from flowsim.storage.writing import json_text as json_text
from flowsim.storage.writing import plain as plain
from flowsim.storage.writing import whole_file as whole_file
from flowsim.storage.writing import write_bytes as write_bytes
from flowsim.storage.writing import write_json as write_json
from flowsim.storage.writing import write_netcdf as write_netcdf
from flowsim.storage.writing import write_npz as write_npz
from flowsim.storage.writing import write_text as write_text
