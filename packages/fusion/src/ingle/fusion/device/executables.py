"""What makes launches ready to run, and keeps them between processes."""

from ..runtime.launch import bits_of_number as bits_of_number
from ..runtime.launch import compiled as compiled
from ..runtime.launch_records import read_launches as read_launches
from ..runtime.launch_records import written_launches as written_launches
from ..support.source_digest import folder_digest as folder_digest
