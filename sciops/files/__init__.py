"""Files: whole or not there, locks, digests, JSON, tensors, and bounds on what files of others may take.

Import from the modules, which differ in what they load: `budget`, `digest`, `json_files`, `locks`, `messages`,
`tensor_files`, `untrusted`, `whole_files`, `writable`.
"""
