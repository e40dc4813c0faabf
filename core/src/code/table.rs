//! Every error there is: number, name, whose fault. Numbers are frozen: a row is added, and none is changed or taken away.

use super::Fault;

codes! {
    /// Success.
    0 Ok "ok" Nobody;

    // Descriptor, in the order in which the rules are checked.
    /// A record does not have exactly its number of bytes.
    1 Size "size" Sender;
    /// The first two bytes are not 0x5342.
    2 Magic "magic" Sender;
    /// An address space that does not exist.
    3 AddressSpace "address_space" Sender;
    /// An access right that does not exist.
    4 Access "access" Sender;
    /// A backend that does not exist.
    5 BackendKind "backend_kind" Sender;
    /// A body of more than 32 bytes.
    6 BodyLen "body_len" Sender;
    /// Generation 0.
    7 Generation "generation" Sender;
    /// The backend does not live in that address space.
    8 Capability "capability" Sender;
    /// A copy-on-write backing grants more than reading.
    9 ForkCowAccess "fork_cow_access" Sender;
    /// An address body that does not have 8 bytes.
    10 BodyAddressLen "body_address_len" Sender;
    /// An address body whose base is 0.
    11 BodyNullBase "body_null_base" Sender;
    /// A shared-memory name without a character.
    12 BodyShmNameEmpty "body_shm_name_empty" Sender;
    /// A character that a shared-memory name must not have.
    13 BodyShmNameChar "body_shm_name_char" Sender;
    /// A shareable body that does not have 24 bytes.
    14 BodyShareableLen "body_shareable_len" Sender;
    /// A shareable handle of 0.
    15 BodyShareableHandle "body_shareable_handle" Sender;
    /// A shareable body's reserved field is not 0.
    16 BodyShareableReserved "body_shareable_reserved" Sender;
    /// A shareable mapping is smaller than its backing.
    17 BodyShareableMapping "body_shareable_mapping" Sender;
    /// A remote descriptor has a body.
    18 BodyRemoteNotEmpty "body_remote_not_empty" Sender;
    /// A byte past the body's end is not 0.
    19 BodyTail "body_tail" Sender;

    // Tensor.
    /// A rank that is not 1 to 5.
    32 Ndims "ndims" Sender;
    /// An element type that does not exist.
    33 Dtype "dtype" Sender;
    /// An offset that is no multiple of the element size.
    34 ByteOffsetAlignment "byte_offset_alignment" Sender;
    /// A dimension of no elements.
    35 ShapeZero "shape_zero" Sender;
    /// A step of 0.
    36 StrideZero "stride_zero" Sender;
    /// A slot past the rank is not 0.
    37 InactiveDims "inactive_dims" Sender;
    /// The extent does not fit in 64 bits.
    38 ExtentOverflow "extent_overflow" Sender;
    /// The view reaches past its backing.
    39 OutOfBounds "out_of_bounds" Sender;
    /// A dense view of that shape has a stride that does not fit in 32 bits.
    40 RowMajorStride "row_major_stride" Caller;

    // Blob.
    /// Fewer bytes than the two counts need.
    48 Short "short" Sender;
    /// A count below 0.
    49 Negative "negative" Sender;
    /// The counts imply more bytes than are at hand.
    50 PastEnd "past_end" Sender;

    // What a chip reads.
    /// Base, offset and extent together pass 2^64.
    64 AddressOverflow "address_overflow" Sender;
    /// More tensors or scalars than a task's arguments hold.
    65 TooManyArguments "too_many_arguments" Sender;

    // Rights.
    /// A tag that does not exist.
    80 TagUnknown "tag" Caller;
    /// A tag needs more than the owner grants.
    81 Denied "denied" Caller;

    // Encoding.
    /// The bytes to write into are too few.
    96 BufferTooSmall "buffer_too_small" Caller;

    // A task's arguments.
    /// A tensor came after a scalar.
    112 TensorAfterScalar "tensor_after_scalar" Caller;
    /// There is no room for another argument.
    113 ArgumentsFull "arguments_full" Capacity;
    /// No tensor has that index.
    114 NoSuchTensor "no_such_tensor" Caller;
    /// Not one tag for each tensor.
    115 TagCount "tag_count" Caller;
    /// More tensors than a task's arguments hold.
    116 TooManyTensors "too_many_tensors" Caller;
    /// More scalars than a task's arguments hold.
    117 TooManyScalars "too_many_scalars" Caller;
    /// Two arguments of a task name a byte that one of them writes.
    118 ArgumentClash "argument_clash" Caller;
    /// Whether arguments of a task clash takes too long to tell.
    119 ArgumentsTooComplex "arguments_too_complex" Capacity;

    // Dependencies.
    /// A task has more arguments than the tracker takes.
    128 TrackerArguments "tracker_arguments" Capacity;
    /// A task would wait in more ways than the tracker takes.
    129 TrackerFanIn "tracker_fan_in" Capacity;
    /// The tracker has no room for a task.
    130 TrackerTasks "tracker_tasks" Capacity;
    /// The tracker has no room for a backing.
    131 TrackerBackings "tracker_backings" Capacity;
    /// The tracker has too few entries left.
    132 TrackerEntries "tracker_entries" Capacity;
    /// The tracker has too few pieces left.
    133 TrackerPieces "tracker_pieces" Capacity;
    /// The tracker has too few links left: the fan-out of all tasks together.
    134 TrackerLinks "tracker_links" Capacity;
    /// The task has been retired from the tracker.
    135 NotTracked "not_tracked" Caller;

    // What one endpoint owns.
    /// Another endpoint incarnation owns it.
    144 OtherOwner "other_owner" Caller;
    /// The owner never gave this identity out.
    145 NeverExisted "never_existed" Caller;
    /// The identity was given out and has been released.
    146 Stale "stale" Caller;
    /// Its release has begun: nothing new may come from it.
    147 Closing "closing" Caller;
    /// Its release has not begun.
    149 NotClosing "not_closing" Caller;
    /// No unfinished task names it.
    150 NotHeld "not_held" Caller;
    /// More unfinished tasks name it than are counted.
    151 TooManyHolds "too_many_holds" Capacity;
    /// The owner's table has no slot free.
    152 OwnerTableFull "owner_table_full" Capacity;

    // What one endpoint has imported.
    /// An imported identity came again with another descriptor.
    160 ImportConflict "import_conflict" Sender;
    /// The import table has no slot free.
    161 ImportTableFull "import_table_full" Capacity;
    /// The import table has no room where the identity's hash lets it stand.
    162 ImportTableCrowded "import_table_crowded" Capacity;
    /// An imported identity came again where a new one was expected.
    163 AlreadyImported "already_imported" Caller;
    /// No view of it is alive.
    164 NotPinned "not_pinned" Caller;
    /// More views of it are alive than are counted.
    165 TooManyPins "too_many_pins" Capacity;
    /// It is not in the import table, or no longer.
    166 NotImported "not_imported" Caller;

    // The host: the operating system.
    /// A call of the operating system failed for a reason that has no code of its own.
    192 OsCall "os_call" Machine;
    /// No memory or no space in a file system is left.
    193 NoSpace "no_space" Machine;
    /// No file descriptor is left.
    194 NoFileDescriptor "no_file_descriptor" Machine;
    /// No address space, or no further mapping, is left.
    195 NoAddressSpace "no_address_space" Machine;
    /// The operating system does not permit it.
    196 NotPermitted "not_permitted" Machine;

    // The host: shared-memory objects.
    /// An object of that name is there already.
    197 ShmNameTaken "shm_name_taken" Machine;
    /// No object has that name.
    198 ShmNotFound "shm_not_found" Sender;
    /// The object has fewer bytes than its descriptor claims.
    199 ShmTooSmall "shm_too_small" Sender;
    /// A name that the operating system does not take, as `.` and `..`.
    200 ShmNameInvalid "shm_name_invalid" Sender;

    // The host: owners and consumers.
    /// A buffer of no bytes.
    201 NbytesZero "nbytes_zero" Caller;
    /// More bytes than an address space can hold.
    202 NbytesTooLarge "nbytes_too_large" Caller;
    /// The buffer has been released.
    203 Released "released" Caller;
    /// A task that is not finished names the buffer.
    204 Busy "busy" Caller;
    /// Only the process that made it may do that, and this is a fork of it.
    205 Forked "forked" Caller;
    /// The backing cannot be reached from here.
    206 NotResolvable "not_resolvable" Sender;
    /// Views of the mapping are alive.
    207 ViewsAlive "views_alive" Caller;
    /// The object shrank under its mapping.
    208 BackingShrank "backing_shrank" Sender;
    /// No live mapping has those addresses.
    209 AddressNotMapped "address_not_mapped" Caller;

    // The host: workers and kernels.
    /// A fork without exec needs a process of one thread.
    210 SeveralThreads "several_threads" Caller;
    /// No such worker.
    211 WorkerUnknown "worker_unknown" Caller;
    /// The worker has a task that is not finished.
    212 WorkerBusy "worker_busy" Caller;
    /// The worker process ended.
    213 WorkerDied "worker_died" Machine;
    /// What was waited for did not come in time.
    214 TimedOut "timed_out" Machine;
    /// A message in control memory contradicts itself.
    215 MessageBroken "message_broken" Sender;
    /// No kernel has that number.
    216 KernelUnknown "kernel_unknown" Caller;
    /// Another number of operands or scalars than the kernel takes.
    217 KernelCounts "kernel_counts" Caller;
    /// An element type that the kernel does not take.
    218 KernelDtype "kernel_dtype" Caller;
    /// A shape that the kernel does not take.
    219 KernelShape "kernel_shape" Caller;
    /// A view that is written has two indices for one byte.
    220 SelfOverlap "self_overlap" Caller;
    /// A scalar that is no value of the element type.
    221 KernelScalar "kernel_scalar" Caller;
    /// What has a shared-memory object's name is a link, a pipe or the like.
    222 ShmNotAnObject "shm_not_an_object" Sender;
    /// No worker has a task, so none can finish.
    223 WorkerIdle "worker_idle" Caller;
    /// The caller had its wait ended before anything came of it.
    224 Interrupted "interrupted" Caller;

    // The C boundary.
    /// A pointer is NULL.
    256 NullPointer "null_pointer" Caller;
    /// A pointer does not have the alignment that its type needs.
    257 Misaligned "misaligned" Caller;
    /// Two arguments share bytes of which one is written.
    258 Overlapping "overlapping_arguments" Caller;
    /// A length passes the end of the address space, or what one object can have.
    259 Length "length" Caller;

    // The host: VMM drivers.
    /// The owner's process or its broker is gone.
    272 VmmOwnerGone "vmm_owner_gone" Machine;
    /// No export has that handle, or it was revoked.
    273 VmmHandleUnknown "vmm_handle_unknown" Sender;
    /// The owner does not let this process import the handle.
    274 VmmNotPermitted "vmm_not_permitted" Caller;
    /// The handle is the importer's own: it has the mapping already.
    275 VmmOwnHandle "vmm_own_handle" Caller;
    /// Identity, size or right differ between a descriptor and what its owner exports.
    276 VmmMismatch "vmm_mismatch" Sender;
    /// The driver does not support it here.
    277 VmmNotSupported "vmm_not_supported" Machine;
    /// A call of the driver failed with a number of the driver's.
    278 VmmDriverCall "vmm_driver_call" Machine;
    /// The driver's library cannot be loaded.
    279 VmmLibraryMissing "vmm_library_missing" Machine;
    /// The driver's library lacks a function.
    280 VmmSymbolMissing "vmm_symbol_missing" Machine;
    /// The driver gave handle 0, which the wire forbids.
    281 VmmHandleZero "vmm_handle_zero" Machine;
    /// Another user than expected serves the owner's address.
    282 VmmBrokerForeign "vmm_broker_foreign" Sender;
    /// The broker's answer keeps to no form.
    283 VmmReplyBroken "vmm_reply_broken" Sender;
    /// The broker sent no file descriptor with its consent.
    284 VmmFileMissing "vmm_file_missing" Sender;
    /// The broker's file could still shrink, or is no memory at all.
    285 VmmNotSealed "vmm_not_sealed" Sender;
    /// The descriptor names another backend than VMM_SHAREABLE.
    286 VmmNotShareable "vmm_not_shareable" Caller;
    /// As many handles are exported as the driver keeps.
    287 VmmExportsFull "vmm_exports_full" Capacity;
    /// The memory is exported already.
    288 VmmExportedAlready "vmm_exported_already" Caller;
    /// An access that the owner does not grant.
    289 VmmDenied "vmm_denied" Caller;
    /// A range that does not lie within the memory.
    290 VmmOutOfRange "vmm_out_of_range" Caller;
    /// The device has another number than can be one.
    291 VmmDeviceUnknown "vmm_device_unknown" Sender;
    /// An identity that is imported came again with another descriptor.
    292 VmmDescriptorDiffers "vmm_descriptor_differs" Sender;
    /// Calls in an order that the driver forbids.
    293 VmmOrder "vmm_order" Caller;
    /// Somebody listens at the address of an endpoint's broker already.
    294 VmmAddressTaken "vmm_address_taken" Machine;
    /// The buffer is wrapped already.
    295 WrappedAlready "wrapped_already" Caller;
    /// The identity is one that the endpoint gives out itself.
    296 WrapOwn "wrap_own" Caller;

    // Memory given out of a heap or of a device.
    /// No free piece is long enough.
    304 SpaceFull "space_full" Capacity;
    /// Nothing that is live starts at that address.
    305 NotAllocated "not_allocated" Caller;
    /// The process has not inherited that memory, or it is no longer live.
    306 NotInherited "not_inherited" Sender;
    /// Memory that somebody else allocated does not lie where it is said to.
    307 WrapRange "wrap_range" Caller;
    /// The region belongs to another endpoint.
    308 WrapOwner "wrap_owner" Caller;
    /// The elements of an argument have another type than was asked for.
    309 ElementType "element_type" Caller;
    /// The elements of an argument do not lie densely one behind the other.
    310 NotContiguous "not_contiguous" Caller;
    /// A view has more elements than there are addresses.
    311 TooManyElements "too_many_elements" Capacity;
    /// Bytes at an address that is not the device's.
    312 DeviceAddress "device_address" Caller;
    /// A device that is no longer there.
    313 DeviceEnded "device_ended" Machine;
    /// A task names device memory of another chip than the one that it goes to.
    314 DeviceOtherChip "device_other_chip" Caller;
    /// A copy whose bytes do not all lie in the one allocation.
    315 DeviceRange "device_range" Caller;
    /// A buffer of a communication domain is to be freed without the others.
    316 DeviceInDomain "device_in_domain" Caller;
    /// A buffer of no communication domain is to be freed with one.
    317 DeviceNotInDomain "device_not_in_domain" Caller;
    /// Freed memory that the device did not take back.
    318 DeviceLeaked "device_leaked" Machine;
    /// A leaf that is no chip is asked for device memory.
    319 WorkerNotAChip "worker_not_a_chip" Caller;

    // Regions.
    /// Other scalars than a region's.
    320 RegionMagic "region_magic" Sender;
    /// A region's major version that is not spoken here.
    321 RegionMajor "region_major" Sender;
    /// Region id 0.
    322 RegionId "region_id" Sender;
    /// A region's payload has no bytes, or passes the last address.
    323 RegionPayload "region_payload" Sender;
    /// A region's counters are not whole ones on a line of their own.
    324 RegionCounter "region_counter" Sender;
    /// A region's two parts share bytes.
    325 RegionOverlap "region_overlap" Sender;
    /// Two descriptors are not the parts of one region.
    326 RegionParts "region_parts" Sender;
    /// Bytes or a counter that the region, or the reservation in it, does not have.
    327 RegionRange "region_range" Caller;
    /// A region's memory could not be reached.
    328 RegionAccess "region_access" Machine;

    // The message queue.
    /// Other scalars than a queue's.
    329 QueueMagic "queue_magic" Sender;
    /// A queue's major version that is not spoken here.
    330 QueueMajor "queue_major" Sender;
    /// A depth that is no power of two, or more than 2^30.
    331 QueueDepth "queue_depth" Sender;
    /// An arena that is no positive multiple of 64 bytes.
    332 QueueArena "queue_arena" Sender;
    /// Another number of bytes than the layout takes.
    333 QueueSize "queue_size" Sender;
    /// A window or marks that do not go with the depth.
    334 QueueStorage "queue_storage" Caller;
    /// The memory writes back lines that both sides write.
    335 QueueLine "queue_line" Caller;
    /// A message of more bytes than its arena.
    336 MessageTooLarge "message_too_large" Caller;
    /// Every slot holds a message that was not given back.
    337 RingFull "ring_full" Capacity;
    /// The arena has no room in one piece.
    338 ArenaFull "arena_full" Capacity;
    /// No message is there.
    339 QueueEmpty "queue_empty" Nobody;
    /// Nothing comes after STOP.
    340 QueueStopped "queue_stopped" Caller;
    /// A reservation is open.
    341 QueueReserved "queue_reserved" Caller;
    /// As many messages are held as the window takes.
    342 WindowFull "window_full" Capacity;
    /// The other side gave up.
    343 QueuePeerAborted "queue_peer_aborted" Sender;
    /// This side gave up.
    344 QueueAborted "queue_aborted" Caller;
    /// A slot's sequence does not follow.
    345 QueueSequence "queue_sequence" Sender;
    /// A slot's opcode does not exist.
    346 QueueOpcode "queue_opcode" Sender;
    /// A message lies outside its arena.
    347 QueuePlace "queue_place" Sender;
    /// STOP is an output, has bytes, or is not the last.
    348 QueueStop "queue_stop" Sender;
    /// The other side's count went where it cannot.
    349 QueueCount "queue_count" Sender;
    /// A message or a reservation that is not current.
    350 QueueHandle "queue_handle" Caller;
    /// A task names memory that is not live on its chip.
    368 DeviceNotLive "device_not_live" Caller;
    /// More buffers of a communication domain than are carved at once.
    369 DeviceTooManyParts "device_too_many_parts" Capacity;
    /// First content for device memory that has been named already.
    370 DeviceNamed "device_named" Caller;
    /// A process that is to be let at shared device memory has ended.
    371 PeerEnded "peer_ended" Machine;

    // The orchestrator.
    /// A task without a member.
    384 TaskEmpty "task_empty" Caller;

    // Arguments for another machine.
    /// A remote tensor without its sidecar.
    385 SidecarMissing "sidecar_missing" Caller;
    /// A sidecar beside a tensor that is not remote.
    386 SidecarUnexpected "sidecar_unexpected" Caller;
    /// A sidecar that contradicts its tensor, or itself.
    387 SidecarDiffers "sidecar_differs" Sender;
    /// Bytes in a sidecar that may be written, or are too many.
    388 SidecarInline "sidecar_inline" Caller;
    /// No transport leads to a remote argument.
    389 TransportMissing "transport_missing" Machine;
    /// A transport did not move the bytes.
    390 TransportFailed "transport_failed" Machine;

    // Devices that run our firmware.
    /// What runs a device, an emulator or its firmware, is not on this machine.
    410 DeviceMissing "device_missing" Machine;
    /// The device's firmware does not start as ours does.
    411 DeviceFirmware "device_firmware" Machine;
    /// The device's processor took an exception.
    412 DeviceFault "device_fault" Machine;
    /// Bytes that do not all lie in one range which the device was told is live.
    413 DeviceAllocation "device_allocation" Sender;
    /// The device was told of as many ranges as it can remember.
    414 DeviceAllocationsFull "device_allocations_full" Capacity;

    // The C boundary of the host.
    /// A fault in this library: a panic that was stopped at its boundary.
    420 Internal "internal" Library;
    /// No handle of this process is that number.
    421 HandleUnknown "handle_unknown" Caller;
    /// The handle belongs to something of another kind.
    422 HandleKind "handle_kind" Caller;
    /// What the handle belonged to has been released.
    423 HandleReleased "handle_released" Caller;
    /// As many handles of a kind are in use as there can be.
    424 HandlesFull "handles_full" Capacity;
    /// A number that is none of an option's values.
    425 OptionUnknown "option_unknown" Caller;
    /// A text that is no UTF-8, has no end, or has no character.
    426 TextBroken "text_broken" Caller;
    /// A kernel that is not of this library says that it failed.
    427 KernelFailed "kernel_failed" Caller;
    /// Two workers below one have the same name.
    428 WorkerNameTaken "worker_name_taken" Caller;

    // The C boundary of the message queue.
    /// No end of a queue is attached in that storage.
    430 QueueDetached "queue_detached" Caller;
}
