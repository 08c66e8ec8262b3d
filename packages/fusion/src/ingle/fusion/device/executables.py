"""What makes launches ready to run, and keeps them between processes.

Numbers travel to kernels as 64-bit integers:

>>> from ingle.fusion.device.executables import bits_of_number
>>> hex(bits_of_number(1.0, "float32")), bits_of_number(-1, "int64")
('0x3f800000', -1)
"""

from ..kernel.joining import joins as joins
from ..runtime.joined_launches import TouchedBytes as TouchedBytes
from ..runtime.joined_launches import apart as apart
from ..runtime.joined_launches import apart_in_plan as apart_in_plan
from ..runtime.joined_launches import bytes_of as bytes_of
from ..runtime.joined_launches import neighbours as neighbours
from ..runtime.joined_launches import spans_of as spans_of
from ..runtime.joined_launches import spans_of_whole as spans_of_whole
from ..runtime.launch import bits_of_number as bits_of_number
from ..runtime.launch import compiled as compiled
from ..runtime.launch_records import read_launches as read_launches
from ..runtime.launch_records import written_launches as written_launches
from ..support.share_of_time import ShareOfTime as ShareOfTime
from ..support.source_digest import folder_digest as folder_digest
