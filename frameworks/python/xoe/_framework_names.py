"""Names that the module of every framework has: the world and its ranks, process sets, reductions and errors."""

from xoe.errors import HorovodInternalError as HorovodInternalError
from xoe.errors import MismatchError as MismatchError
from xoe.errors import PeerLostError as PeerLostError
from xoe.errors import XoeError as XoeError
from xoe.initialize import init as init
from xoe.initialize import shutdown as shutdown
from xoe.process_sets import ProcessSet as ProcessSet
from xoe.process_sets import add_process_set as add_process_set
from xoe.process_sets import global_process_set as global_process_set
from xoe.process_sets import remove_process_set as remove_process_set
from xoe.reduction import *  # noqa: F403
from xoe.topology import is_homogeneous as is_homogeneous
from xoe.world import cross_rank as cross_rank
from xoe.world import cross_size as cross_size
from xoe.world import is_initialized as is_initialized
from xoe.world import local_rank as local_rank
from xoe.world import local_size as local_size
from xoe.world import rank as rank
from xoe.world import size as size
from xoe.world import start_timeline as start_timeline
from xoe.world import stop_timeline as stop_timeline
