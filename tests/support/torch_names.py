"""PyTorch's names that are here, by family: functions under `torch.`, and methods and classes by their own prefix.

A function of `torch` that is a method of `torch.Tensor` as well is one of `ag.Tensor`, too: test_torch_names.py.
"""

FAMILIES = {
    "Elementwise": """
        abs absolute acos acosh add addcdiv addcmul arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh
        atan atan2 atanh ceil clamp clamp_max clamp_min clip conj conj_physical copysign cos cosh deg2rad digamma div
        divide erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin fmod frac frexp gcd
        heaviside hypot i0 igamma igammac lcm ldexp lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logit
        maximum minimum mul multiply mvlgamma nan_to_num neg negative nextafter polygamma positive pow rad2deg
        reciprocal remainder round rsqrt rsub sgn sigmoid sign sin sinc sinh softmax sqrt square sub subtract tan tanh
        true_divide trunc xlogy
    """,
    "In place": """
        abs_ acos_ acosh_ addmv_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ as_strided_ asin_ asinh_ atan_
        atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_
        exp_ expm1_ fill_ fix_ floor_ frac_ gcd_ i0_ index_put_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_
        nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ round_ rsqrt_ sin_ sinc_ sinh_ sqrt_ square_ tan_ trunc_
        xlogy_ zero_
    """,
    "Special functions": """
        special.digamma special.entr special.erf special.erfc special.erfcx special.erfinv special.exp2 special.expit
        special.expm1 special.gammainc special.gammaincc special.gammaln special.i0 special.i0e special.i1 special.i1e
        special.log1p special.log_ndtr special.log_softmax special.logit special.logsumexp special.multigammaln
        special.ndtr special.ndtri special.polygamma special.psi special.round special.sinc special.softmax
        special.xlog1py special.xlogy special.zeta
    """,
    "Comparison and logic": """
        allclose bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor eq equal ge
        greater greater_equal gt isclose isfinite isin isinf isnan isneginf isposinf isreal le less less_equal
        logical_and logical_not logical_or logical_xor lt ne not_equal signbit
    """,
    "Reductions": """
        all amax amin aminmax any argmax argmin bincount bucketize cdist corrcoef count_nonzero cov cummax cummin
        cumprod cumsum cumulative_trapezoid diff dist gradient histc histogram kthvalue logcumsumexp logsumexp max mean
        median min mode nanmean nanmedian nanquantile nansum norm prod quantile renorm searchsorted std std_mean sum
        trace trapezoid trapz unique unique_consecutive var var_mean nn.functional.pdist
    """,
    "Shape": """
        adjoint as_strided atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors broadcast_to
        cartesian_prod cat chunk column_stack combinations concat concatenate diag diag_embed diagflat diagonal
        diagonal_scatter dsplit dstack flatten flip fliplr flipud hsplit hstack meshgrid moveaxis movedim narrow
        narrow_copy nn.functional.pad permute ravel repeat_interleave reshape roll rot90 row_stack select select_scatter
        slice_scatter split split_with_sizes squeeze stack swapaxes swapdims t tensor_split tile transpose tril
        tril_indices triu triu_indices unbind unflatten unsafe_chunk unsafe_split unsafe_split_with_sizes
        unsqueeze vander vsplit vstack
        Tensor.H Tensor.T Tensor.expand Tensor.expand_as Tensor.mH Tensor.mT Tensor.repeat Tensor.reshape_as
        Tensor.sum_to_size Tensor.unfold Tensor.view Tensor.view_as
    """,
    "Indexing": """
        argsort argwhere gather index_add index_copy index_fill index_put index_reduce index_select masked_fill
        masked_scatter masked_select msort nonzero put scatter scatter_add scatter_reduce sort take take_along_dim topk
        unravel_index where
        nn.functional.embedding nn.functional.embedding_bag nn.functional.one_hot Tensor.__getitem__ Tensor.__setitem__
        Tensor.index_add_ Tensor.index_copy_ Tensor.index_fill_ Tensor.index_put_ Tensor.index_reduce_
        Tensor.masked_fill_ Tensor.masked_scatter_ Tensor.put_ Tensor.scatter_ Tensor.scatter_add_
        Tensor.scatter_reduce_
    """,
    "Products": """
        addbmm addmm addmv addr baddbmm bmm chain_matmul cross dot einsum ger inner kron matmul mm mv outer tensordot
        vdot
    """,
    "Linear algebra": """
        cholesky_inverse cholesky_solve det inverse logdet lu lu_solve lu_unpack matrix_exp matrix_power pinverse qr
        slogdet svd triangular_solve
        linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh
        linalg.eigvals linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex linalg.lstsq linalg.lu
        linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matmul linalg.matrix_exp linalg.matrix_norm
        linalg.matrix_power linalg.matrix_rank linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet
        linalg.solve linalg.solve_ex linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv
        linalg.tensorsolve linalg.vander linalg.vecdot linalg.vector_norm
    """,
    "Activations": """
        celu_ log_softmax prelu relu relu_ selu selu_ sigmoid_ tanh_
        nn.functional.celu nn.functional.celu_ nn.functional.elu nn.functional.elu_ nn.functional.gelu nn.functional.glu
        nn.functional.gumbel_softmax nn.functional.hardshrink nn.functional.hardsigmoid nn.functional.hardswish
        nn.functional.hardtanh nn.functional.hardtanh_ nn.functional.leaky_relu nn.functional.leaky_relu_
        nn.functional.log_softmax nn.functional.logsigmoid nn.functional.mish nn.functional.prelu nn.functional.relu
        nn.functional.relu6 nn.functional.relu_ nn.functional.rrelu nn.functional.rrelu_ nn.functional.selu
        nn.functional.selu_ nn.functional.sigmoid nn.functional.silu nn.functional.softmax nn.functional.softmin
        nn.functional.softplus nn.functional.softshrink nn.functional.softsign nn.functional.tanh
        nn.functional.tanhshrink nn.functional.threshold nn.functional.threshold_
    """,
    "Losses": """
        nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits
        nn.functional.cosine_embedding_loss nn.functional.cross_entropy nn.functional.gaussian_nll_loss
        nn.functional.hinge_embedding_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss
        nn.functional.margin_ranking_loss nn.functional.mse_loss nn.functional.multi_margin_loss
        nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss nn.functional.nll_loss
        nn.functional.poisson_nll_loss nn.functional.smooth_l1_loss nn.functional.soft_margin_loss
        nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss
    """,
    "Norms, pooling, attention, distances": """
        nn.functional.adaptive_avg_pool1d nn.functional.avg_pool1d nn.functional.batch_norm nn.functional.bilinear
        nn.functional.cosine_similarity nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm
        nn.functional.linear nn.functional.max_pool1d nn.functional.multi_head_attention_forward nn.functional.normalize
        nn.functional.pairwise_distance nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.rms_norm
        nn.functional.scaled_dot_product_attention
    """,
    "Dropout": """
        alpha_dropout_ dropout_ feature_alpha_dropout_ feature_dropout feature_dropout_
        nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout1d nn.functional.dropout2d
        nn.functional.dropout3d nn.functional.feature_alpha_dropout
    """,
    "Layers": """
        nn.CELU nn.ELU nn.GELU nn.GLU nn.Hardshrink nn.Hardsigmoid nn.Hardswish nn.Hardtanh nn.LeakyReLU nn.LogSigmoid
        nn.LogSoftmax nn.Mish nn.PReLU nn.RReLU nn.ReLU nn.ReLU6 nn.SELU nn.SiLU nn.Sigmoid nn.Softmax nn.Softmax2d
        nn.Softmin nn.Softplus nn.Softshrink nn.Softsign nn.Tanh nn.Tanhshrink nn.Threshold
        nn.BCELoss nn.BCEWithLogitsLoss nn.CosineEmbeddingLoss nn.CrossEntropyLoss nn.GaussianNLLLoss
        nn.HingeEmbeddingLoss nn.HuberLoss nn.KLDivLoss nn.L1Loss nn.MSELoss nn.MarginRankingLoss
        nn.MultiLabelMarginLoss nn.MultiLabelSoftMarginLoss nn.MultiMarginLoss nn.NLLLoss nn.PoissonNLLLoss
        nn.SmoothL1Loss nn.SoftMarginLoss nn.TripletMarginLoss nn.TripletMarginWithDistanceLoss nn.AdaptiveAvgPool1d
        nn.AlphaDropout nn.AvgPool1d nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d nn.Bilinear nn.CosineSimilarity
        nn.Dropout nn.Dropout1d nn.Dropout2d nn.Dropout3d nn.Embedding nn.EmbeddingBag nn.FeatureAlphaDropout nn.Flatten
        nn.GroupNorm nn.Identity nn.InstanceNorm1d nn.InstanceNorm2d nn.InstanceNorm3d nn.LayerNorm nn.LazyLinear
        nn.Linear nn.MaxPool1d nn.MultiheadAttention nn.PairwiseDistance nn.PixelShuffle nn.PixelUnshuffle nn.RMSNorm
        nn.SyncBatchNorm nn.Transformer nn.TransformerDecoder nn.TransformerDecoderLayer nn.TransformerEncoder
        nn.TransformerEncoderLayer nn.Unflatten
    """,
    "Recurrent layers": """
        nn.GRU nn.GRUCell nn.LSTM nn.LSTMCell nn.RNN nn.RNNBase nn.RNNCell nn.RNNCellBase
        nn.RNNBase.all_weights nn.RNNBase.flatten_parameters nn.RNNBase.reset_parameters
        nn.utils.rnn.PackedSequence nn.utils.rnn.invert_permutation nn.utils.rnn.pack_padded_sequence
        nn.utils.rnn.pack_sequence nn.utils.rnn.pad_packed_sequence nn.utils.rnn.pad_sequence
        nn.utils.rnn.unpack_sequence nn.utils.rnn.unpad_sequence
        nn.utils.rnn.PackedSequence.byte nn.utils.rnn.PackedSequence.char nn.utils.rnn.PackedSequence.is_pinned
        nn.utils.rnn.PackedSequence.pin_memory nn.utils.rnn.PackedSequence.short
        nn.utils.rnn.PackedSequence.cpu nn.utils.rnn.PackedSequence.cuda nn.utils.rnn.PackedSequence.double
        nn.utils.rnn.PackedSequence.float nn.utils.rnn.PackedSequence.half nn.utils.rnn.PackedSequence.int
        nn.utils.rnn.PackedSequence.is_cuda nn.utils.rnn.PackedSequence.long nn.utils.rnn.PackedSequence.to
    """,
    "Modules": """
        nn.Buffer nn.Module nn.ModuleDict nn.ModuleList nn.Parameter nn.ParameterDict nn.ParameterList nn.Sequential
        nn.utils.stateless.functional_call
        nn.UninitializedParameter
        nn.Module.add_module nn.Module.apply nn.Module.buffers nn.Module.children nn.Module.eval nn.Module.get_submodule
        nn.Module.load_state_dict nn.Module.modules nn.Module.named_buffers nn.Module.named_modules
        nn.Module.named_parameters nn.Module.parameters nn.Module.register_buffer nn.Module.register_forward_hook
        nn.Module.register_forward_pre_hook nn.Module.register_full_backward_hook
        nn.Module.register_full_backward_pre_hook nn.Module.register_load_state_dict_post_hook nn.Module.register_module
        nn.Module.register_parameter nn.Module.register_state_dict_post_hook nn.Module.register_state_dict_pre_hook
        nn.Module.requires_grad_ nn.Module.state_dict nn.Module.to nn.Module.train nn.Module.zero_grad
        nn.init.calculate_gain nn.init.constant_ nn.init.eye_ nn.init.kaiming_normal_
        nn.init.kaiming_uniform_ nn.init.normal_ nn.init.ones_ nn.init.orthogonal_ nn.init.sparse_ nn.init.trunc_normal_
        nn.init.uniform_ nn.init.xavier_normal_ nn.init.xavier_uniform_ nn.init.zeros_
        nn.utils.clip_grad_norm_ nn.utils.clip_grad_value_ nn.utils.clip_grads_with_norm_ nn.utils.get_total_norm
        nn.utils.parameters_to_vector nn.utils.vector_to_parameters
    """,
    "Checkpoints": """
        utils.checkpoint.CheckpointError utils.checkpoint.CheckpointFunction utils.checkpoint.CheckpointPolicy
        utils.checkpoint.SelectiveCheckpointContext utils.checkpoint.check_backward_validity
        utils.checkpoint.checkpoint utils.checkpoint.checkpoint_sequential
        utils.checkpoint.create_selective_checkpoint_contexts utils.checkpoint.detach_variable
        utils.checkpoint.noop_context_fn utils.checkpoint.set_checkpoint_debug_enabled
        utils.checkpoint.set_checkpoint_early_stop
    """,
    "Optimizers": """
        optim.ASGD optim.Adadelta optim.Adagrad optim.Adam optim.AdamW optim.Adamax optim.LBFGS optim.NAdam
        optim.Optimizer optim.RAdam optim.RMSprop optim.Rprop optim.SGD
        optim.Optimizer.add_param_group optim.Optimizer.load_state_dict optim.Optimizer.state_dict optim.Optimizer.step
        optim.Optimizer.zero_grad
        optim.lr_scheduler.ChainedScheduler optim.lr_scheduler.ConstantLR optim.lr_scheduler.CosineAnnealingLR
        optim.lr_scheduler.CosineAnnealingWarmRestarts optim.lr_scheduler.CyclicLR optim.lr_scheduler.ExponentialLR
        optim.lr_scheduler.LRScheduler optim.lr_scheduler.LambdaLR optim.lr_scheduler.LinearLR
        optim.lr_scheduler.MultiStepLR optim.lr_scheduler.MultiplicativeLR optim.lr_scheduler.OneCycleLR
        optim.lr_scheduler.PolynomialLR optim.lr_scheduler.ReduceLROnPlateau optim.lr_scheduler.SequentialLR
        optim.lr_scheduler.StepLR
        optim.swa_utils.AveragedModel optim.swa_utils.SWALR optim.swa_utils.get_ema_multi_avg_fn
        optim.swa_utils.get_swa_multi_avg_fn optim.swa_utils.update_bn
    """,
    "Data": """
        utils.data.BatchSampler utils.data.ChainDataset utils.data.ConcatDataset utils.data.DataLoader
        utils.data.Dataset utils.data.IterableDataset utils.data.RandomSampler utils.data.Sampler
        utils.data.SequentialSampler utils.data.StackDataset utils.data.Subset utils.data.SubsetRandomSampler
        utils.data.TensorDataset utils.data.WeightedRandomSampler utils.data.dataloader.DataLoader
        utils.data.dataset.Dataset utils.data.default_collate utils.data.default_convert utils.data.get_worker_info
        utils.data.random_split utils.data.sampler.Sampler Tensor.is_pinned Tensor.pin_memory
    """,
    "Random numbers": """
        Generator _sample_dirichlet _standard_gamma _standard_gamma_grad bernoulli binomial get_rng_state initial_seed
        manual_seed multinomial normal poisson rand rand_like randint randint_like randn randn_like randperm seed
        set_rng_state cuda.manual_seed cuda.manual_seed_all Generator.get_state Generator.initial_seed
        Generator.manual_seed Generator.seed Generator.set_state Tensor.bernoulli_ Tensor.cauchy_ Tensor.exponential_
        Tensor.geometric_ Tensor.log_normal_ Tensor.normal_ Tensor.random_ Tensor.uniform_
    """,
    "Creation": """
        arange as_tensor asarray empty empty_like empty_strided eye from_dlpack from_numpy frombuffer full full_like
        linspace logspace ones ones_like scalar_tensor
        Tensor.resize_ Tensor.resize_as_ Tensor.to_dense tensor zeros zeros_like clone Tensor.new_empty
        Tensor.new_full Tensor.new_ones
        Tensor.new_tensor Tensor.new_zeros
    """,
    "Properties, dtypes, modes": """
        can_cast finfo get_default_device get_default_dtype get_device iinfo is_complex is_floating_point is_inference
        is_nonzero is_same_size is_signed is_tensor numel promote_types real result_type set_default_device
        set_default_dtype set_printoptions typename
        Tensor.contiguous Tensor.cpu Tensor.data_ptr Tensor.detach Tensor.device Tensor.dim Tensor.dtype
        Tensor.element_size Tensor.is_contiguous Tensor.is_cuda Tensor.item Tensor.itemsize Tensor.nbytes Tensor.ndim
        Tensor.nelement Tensor.numpy Tensor.shape Tensor.size Tensor.storage_offset Tensor.stride Tensor.to
        Tensor.tolist Tensor.type Tensor.type_as
    """,
    "Old tensor types": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor Tensor cuda.BFloat16Tensor cuda.BoolTensor cuda.ByteTensor cuda.CharTensor cuda.DoubleTensor
        cuda.FloatTensor cuda.HalfTensor cuda.IntTensor cuda.LongTensor cuda.ShortTensor Tensor.new
        set_default_tensor_type
    """,
    "Settings and devices": """
        accelerator.current_accelerator accelerator.current_device_idx accelerator.current_device_index
        accelerator.current_stream accelerator.device_count accelerator.device_index accelerator.empty_cache
        accelerator.get_memory_info accelerator.is_available accelerator.max_memory_allocated
        accelerator.max_memory_reserved accelerator.memory_allocated accelerator.memory_reserved
        accelerator.memory_stats accelerator.reset_peak_memory_stats accelerator.set_device_idx
        accelerator.set_device_index accelerator.set_stream accelerator.synchronize
        are_deterministic_algorithms_enabled backends.cuda.is_built backends.cuda.matmul
        backends.cudnn.flags backends.cudnn.is_available backends.mkl.is_available backends.mkldnn.is_available
        backends.mps.is_available backends.mps.is_built backends.openmp.is_available
        cuda.init cuda.ipc_collect cuda.is_bf16_supported cuda.is_initialized cuda.max_memory_cached
        cuda.memory_cached cuda.nvtx.mark cuda.nvtx.range cuda.nvtx.range_pop cuda.nvtx.range_push
        cuda.reset_max_memory_allocated cuda.reset_max_memory_cached cuda.seed cuda.seed_all
        get_deterministic_debug_mode get_num_interop_threads get_num_threads
        is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode set_num_interop_threads
        set_num_threads use_deterministic_algorithms __config__.parallel_info __config__.show version.__version__
    """,
    "Compilers, mixed precision": """
        GradScaler amp.GradScaler amp.autocast amp.custom_bwd amp.custom_fwd amp.is_autocast_available autocast
        cuda.amp.GradScaler cuda.amp.autocast cuda.amp.custom_bwd cuda.amp.custom_fwd
        is_autocast_enabled compile compiler.allow_in_graph compiler.assume_constant_result compiler.compile
        compiler.cudagraph_mark_step_begin compiler.disable compiler.is_compiling compiler.is_dynamo_compiling
        compiler.is_exporting compiler.reset jit.Final jit.annotate jit.export jit.freeze jit.ignore
        jit.is_scripting jit.is_tracing jit.optimize_for_inference jit.script jit.script_if_tracing
        jit.script_method jit.trace jit.trace_module jit.unused
    """,
    "Import paths": """
        Event OutOfMemoryError Stream autograd.anomaly_mode.detect_anomaly autograd.function.Function
        autograd.function.FunctionCtx autograd.function.once_differentiable autograd.grad_mode.no_grad
        autograd.variable.Variable nn.modules.Linear nn.modules.activation.ReLU nn.modules.batchnorm._BatchNorm
        nn.modules.batchnorm._NormBase nn.modules.container.Sequential nn.modules.distance.PairwiseDistance
        nn.modules.dropout._DropoutNd nn.modules.flatten.Flatten nn.modules.instancenorm._InstanceNorm
        nn.modules.linear.Identity nn.modules.linear.Linear nn.modules.loss._Loss
        nn.modules.loss._WeightedLoss nn.modules.module.Module nn.modules.normalization.LayerNorm
        nn.modules.pixelshuffle.PixelShuffle nn.modules.pooling.AvgPool1d nn.modules.rnn.RNNBase
        nn.modules.sparse.Embedding
        nn.modules.transformer.Transformer nn.modules.utils._ntuple nn.modules.utils._pair
        nn.modules.utils._single nn.parameter.Parameter nn.utils.clip_grad.clip_grad_norm_
        nn.utils.convert_parameters.parameters_to_vector optim.adam.Adam optim.adamw.AdamW optim.sgd.SGD
        optim.lr_scheduler._LRScheduler optim.optimizer.Optimizer optim.optimizer.ParamsT optim.optimizer.required
        testing.assert_allclose testing.assert_close testing.make_tensor
        types.Device types.Number utils.swap_tensors vmap
    """,
    "Pruning": """
        nn.utils.prune.BasePruningMethod nn.utils.prune.CustomFromMask nn.utils.prune.Identity
        nn.utils.prune.L1Unstructured nn.utils.prune.LnStructured nn.utils.prune.PruningContainer
        nn.utils.prune.RandomStructured nn.utils.prune.RandomUnstructured nn.utils.prune.custom_from_mask
        nn.utils.prune.global_unstructured nn.utils.prune.identity nn.utils.prune.is_pruned
        nn.utils.prune.l1_unstructured nn.utils.prune.ln_structured nn.utils.prune.random_structured
        nn.utils.prune.random_unstructured nn.utils.prune.remove nn.utils.clip_grad_norm
    """,
    "Derivatives": """
        autograd.Function autograd.Variable autograd.set_multithreading_enabled
        autograd.is_multithreading_enabled
        autograd.graph.allow_mutation_on_saved_tensors autograd.graph.disable_saved_tensors_hooks
        autograd.graph.increment_version autograd.graph.save_on_cpu autograd.graph.saved_tensors_hooks
        autograd.inference_mode
       autograd.backward autograd.detect_anomaly autograd.enable_grad autograd.functional.hessian
        autograd.functional.hvp autograd.functional.jacobian autograd.functional.jvp autograd.functional.vhp
        autograd.functional.vjp autograd.grad autograd.gradcheck autograd.gradgradcheck autograd.graph.GradientEdge
        autograd.graph.Node autograd.graph.get_gradient_edge autograd.graph.register_multi_grad_hook autograd.no_grad
        autograd.set_detect_anomaly autograd.set_grad_enabled enable_grad inference_mode is_anomaly_check_nan_enabled
        is_anomaly_enabled is_grad_enabled is_inference_mode_enabled no_grad set_anomaly_enabled set_grad_enabled
        utils.hooks.RemovableHandle
        Tensor.backward Tensor.detach_ Tensor.grad Tensor.grad_fn Tensor.is_leaf Tensor.register_hook
        Tensor.register_post_accumulate_grad_hook Tensor.requires_grad Tensor.requires_grad_ Tensor.retain_grad
    """,
}
NAMES = {family: tuple(names.split()) for family, names in FAMILIES.items()}
