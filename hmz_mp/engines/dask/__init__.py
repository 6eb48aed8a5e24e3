"""The Dask engine: worker processes beside the workers of a Dask cluster.

``engine`` is what a coordinator has, ``cluster`` its connections to the cluster; ``site`` is what
runs in each of the cluster's workers: the local engine, told what to do through a ``stream`` of
``relay`` messages. Nothing here is imported unless an address says ``dask://``.
"""
