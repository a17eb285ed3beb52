"""Which papers a method comes from, as BibTeX."""

from __future__ import annotations


def _arxiv(key: str, title: str, authors: str, number: str, year: int, note: str = "") -> str:
    lines = [
        f"@misc{{{key},",
        f"  title = {{{{{title}}}}},",
        f"  author = {{{authors}}},",
        f"  year = {{{year}}},",
        f"  eprint = {{{number}}},",
        "  archivePrefix = {arXiv},",
    ]
    return "\n".join([*lines, *([f"  note = {{{note}}},"] if note else []), "}", ""])


_FOUR = "Colagrande, Alex and Caillon, Paul and Feillet, Eva and Allauzen, Alexandre"

_PAPERS = {
    "fno": _arxiv(
        "li2020fourier",
        "Fourier Neural Operator for Parametric Partial Differential Equations",
        "Li, Zongyi and Kovachki, Nikola and Azizzadenesheli, Kamyar and Liu, Burigede and Bhattacharya, Kaushik "
        "and Stuart, Andrew and Anandkumar, Anima",
        "2010.08895",
        2020,
    ),
    "mano": _arxiv(
        "colagrande2025linear",
        "Linear Attention with Global Context: A Multipole Attention Mechanism for Vision and Physics",
        _FOUR,
        "2507.02748",
        2025,
    ),
    "resolution": _arxiv(
        "colagrande2026limits",
        "Limits of Resolution Equivariance in Fourier Neural Operators",
        _FOUR,
        "2606.00677",
        2026,
    ),
    "crop": "\n".join(
        [
            "@inproceedings{gao2025discretization,",
            "  title = {{Discretization-invariance? On the Discretization Mismatch Errors in Neural Operators}},",
            "  author = {Gao, Wenhan and Xu, Ruichen and Deng, Yuefan and Liu, Yi},",
            "  booktitle = {International Conference on Learning Representations},",
            "  year = {2025},",
            "}",
            "",
        ]
    ),
    "multi_resolution": _arxiv(
        "sakarvadia2025false",
        "The False Promise of Zero-Shot Super-Resolution in Machine-Learned Operators",
        "Sakarvadia, Mansi and others",
        "2510.06646",
        2025,
    ),
    "discretization": _arxiv(
        "lanthaler2024discretization",
        "Discretization Error of Fourier Neural Operators",
        "Lanthaler, Samuel and Stuart, Andrew M. and Trautner, Margaret",
        "2405.02221",
        2024,
    ),
    "cno": _arxiv(
        "raonic2023convolutional",
        "Convolutional Neural Operators for robust and accurate learning of PDEs",
        "Raoni{\\'c}, Bogdan and others",
        "2302.01178",
        2023,
    ),
    "sno": _arxiv(
        "fanaskov2022spectral",
        "Spectral Neural Operators",
        "Fanaskov, Vladimir and Oseledets, Ivan",
        "2205.10573",
        2022,
    ),
    "neuraloperator": _arxiv(
        "kossaifi2024library",
        "A Library for Learning Neural Operators",
        "Kossaifi, Jean and Kovachki, Nikola and Li, Zongyi and others",
        "2412.10354",
        2024,
    ),
    "tfno": _arxiv(
        "kossaifi2023multigrid",
        "Multi-Grid Tensorized Fourier Neural Operator for High-Resolution PDEs",
        "Kossaifi, Jean and Kovachki, Nikola and Azizzadenesheli, Kamyar and Anandkumar, Anima",
        "2310.00120",
        2023,
    ),
    "uno": _arxiv(
        "rahman2022uno",
        "U-NO: U-shaped Neural Operators",
        "Rahman, Md Ashiqur and Ross, Zachary E. and Azizzadenesheli, Kamyar",
        "2204.11127",
        2022,
    ),
    "adamw": _arxiv(
        "loshchilov2017decoupled",
        "Decoupled Weight Decay Regularization",
        "Loshchilov, Ilya and Hutter, Frank",
        "1711.05101",
        2017,
    ),
    "onecycle": _arxiv(
        "smith2017super",
        "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates",
        "Smith, Leslie N. and Topin, Nicholay",
        "1708.07120",
        2017,
    ),
    "black_box_multigrid": "\n".join(
        [
            "@article{dendy1982black,",
            "  title = {{Black box multigrid}},",
            "  author = {Dendy, J. E.},",
            "  journal = {Journal of Computational Physics},",
            "  volume = {48},",
            "  number = {3},",
            "  pages = {366--386},",
            "  year = {1982},",
            "}",
            "",
        ]
    ),
    "gram_iteration": _arxiv(
        "delattre2023efficient",
        "Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram Iteration",
        "Delattre, Blaise and Barthélemy, Quentin and Araujo, Alexandre and Allauzen, Alexandre",
        "2305.16173",
        2023,
    ),
    "zero_padding_norms": _arxiv(
        "delattre2024spectral",
        "Spectral Norm of Convolutional Layers with Circular and Zero Paddings",
        "Delattre, Blaise and Barthélemy, Quentin and Allauzen, Alexandre",
        "2402.00240",
        2024,
    ),
    "etdrk": "\n".join(
        [
            "@article{cox2002exponential,",
            "  title = {{Exponential Time Differencing for Stiff Systems}},",
            "  author = {Cox, S. M. and Matthews, P. C.},",
            "  journal = {Journal of Computational Physics},",
            "  volume = {176},",
            "  number = {2},",
            "  pages = {430--455},",
            "  year = {2002},",
            "}",
            "",
            "@article{kassam2005fourth,",
            "  title = {{Fourth-Order Time-Stepping for Stiff PDEs}},",
            "  author = {Kassam, Aly-Khan and Trefethen, Lloyd N.},",
            "  journal = {SIAM Journal on Scientific Computing},",
            "  volume = {26},",
            "  number = {4},",
            "  pages = {1214--1233},",
            "  year = {2005},",
            "}",
            "",
        ]
    ),
    "pushforward": _arxiv(
        "brandstetter2022message",
        "Message Passing Neural PDE Solvers",
        "Brandstetter, Johannes and Worrall, Daniel and Welling, Max",
        "2202.03376",
        2022,
    ),
    "lpsda": _arxiv(
        "brandstetter2022lie",
        "Lie Point Symmetry Data Augmentation for Neural PDE Solvers",
        "Brandstetter, Johannes and Welling, Max and Worrall, Daniel E.",
        "2202.07643",
        2022,
    ),
    "pdebench": _arxiv(
        "takamoto2022pdebench",
        "PDEBench: An Extensive Benchmark for Scientific Machine Learning",
        "Takamoto, Makoto and Praditia, Timothy and Leiteritz, Raphael and MacKinlay, Dan and Alesiani, Francesco "
        "and Pfluger, Dirk and Niepert, Mathias",
        "2210.07182",
        2022,
    ),
    "the_well": _arxiv(
        "ohana2024well",
        "The Well: a Large-Scale Collection of Diverse Physics Simulations for Machine Learning",
        "Ohana, Ruben and others",
        "2412.00568",
        2024,
    ),
    "jax_cfd": _arxiv(
        "kochkov2021machine",
        "Machine learning accelerated computational fluid dynamics",
        "Kochkov, Dmitrii and Smith, Jamie A. and Alieva, Ayya and Wang, Qing and Brenner, Michael P. "
        "and Hoyer, Stephan",
        "2102.01010",
        2021,
    ),
    "cohen": _arxiv(
        "cohen2019certified",
        "Certified Adversarial Robustness via Randomized Smoothing",
        "Cohen, Jeremy M. and Rosenfeld, Elan and Kolter, J. Zico",
        "1902.02918",
        2019,
    ),
    "lvm_rs": _arxiv(
        "delattre2023lipschitz",
        "The Lipschitz-Variance-Margin Tradeoff for Enhanced Randomized Smoothing",
        "Delattre, Blaise and Araujo, Alexandre and Barth{\\'e}lemy, Quentin and Allauzen, Alexandre",
        "2309.16883",
        2023,
    ),
    "bridging": _arxiv(
        "delattre2025bridging",
        "Bridging the Theoretical Gap in Randomized Smoothing",
        "Delattre, Blaise and Caillon, Paul and Barth{\\'e}lemy, Quentin and Fagnou, Erwan and Allauzen, Alexandre",
        "2504.02412",
        2025,
    ),
    "smoothing_sequences": _arxiv(
        "voracek2024treatment",
        "Treatment of Statistical Estimation Problems in Randomized Smoothing for Adversarial Robustness",
        "Vor{\\'a}{\\v{c}}ek, V{\\'a}clav",
        "2406.17830",
        2024,
    ),
    "highway": _arxiv(
        "fagnou2025accelerated",
        "Accelerated Training through Iterative Gradient Propagation along the Residual Path",
        "Fagnou, Erwan and Caillon, Paul and Delattre, Blaise and Allauzen, Alexandre",
        "2501.17086",
        2025,
        "ICLR 2025",
    ),
    "state_feedback": _arxiv(
        "caillon2025fast",
        "Fast Training of Recurrent Neural Networks with Stationary State Feedbacks",
        "Caillon, Paul and Fagnou, Erwan and Allauzen, Alexandre",
        "2503.23104",
        2025,
    ),
    "resolvent_attention": _arxiv(
        "fagnou2024chain",
        "Chain and Causal Attention for Efficient Entity Tracking",
        "Fagnou, Erwan and Caillon, Paul and Delattre, Blaise and Allauzen, Alexandre",
        "2410.05565",
        2024,
        "EMNLP 2024",
    ),
    "block_resolvent": _arxiv(
        "zhao2026structured",
        "Structured-Sparse Attention for Entity Tracking with Subquadratic Sequence Complexity",
        "Zhao, H. and Caillon, Paul and Fagnou, Erwan and Allauzen, Alexandre",
        "2605.22476",
        2026,
    ),
    "token_mixing": _arxiv(
        "fagnou2026trading",
        "Trading Complexity for Expressivity Through Structured Generalized Linear Token Mixing",
        "Fagnou, Erwan and Caillon, Paul and Delattre, Blaise and Allauzen, Alexandre",
        "2605.31367",
        2026,
        "ICML 2026",
    ),
    "private_generators": _arxiv(
        "sebag2025vulnerability",
        "On the MIA Vulnerability Gap Between Private GANs and Diffusion Models",
        "Sebag, Ilana and Franceschi, Jean-Yves and Rakotomamonjy, Alain and Allauzen, Alexandre and Atif, Jamal",
        "2509.03341",
        2025,
    ),
    "private_diffusion": _arxiv(
        "dockhorn2022differentially",
        "Differentially Private Diffusion Models",
        "Dockhorn, Tim and Cao, Tianshi and Vahdat, Arash and Kreis, Karsten",
        "2210.09929",
        2022,
    ),
    "private_gans": _arxiv(
        "bie2023private",
        "Private GANs, Revisited",
        "Bie, Alex and Kamath, Gautam and Zhang, Guojun",
        "2302.02936",
        2023,
    ),
    "lira": _arxiv(
        "carlini2021membership",
        "Membership Inference Attacks From First Principles",
        "Carlini, Nicholas and Chien, Steve and Nasr, Milad and Song, Shuang and Terzis, Andreas and "
        "Tram{\\`e}r, Florian",
        "2112.03570",
        2021,
    ),
    "one_training": _arxiv(
        "steinke2023privacy",
        "Privacy Auditing with One (1) Training Run",
        "Steinke, Thomas and Nasr, Milad and Jagielski, Matthew",
        "2305.08846",
        2023,
    ),
    "precision_recall_losses": _arxiv(
        "verine2025improving",
        "Improving Diversity in Language Models: When Temperature Fails, Change the Loss",
        "Verine, Alexandre and Le Bronnec, Florian and Zheng, Kunhao and Allauzen, Alexandre and Chevaleyre, Yann and "
        "Negrevergne, Benjamin",
        "2508.09654",
        2025,
        "ICML 2025",
    ),
    "lambda_pr": _arxiv(
        "verine2023precision",
        "Precision-Recall Divergence Optimization for Generative Modeling with GANs and Normalizing Flows",
        "Verine, Alexandre and Negrevergne, Benjamin and Pydi, Muni Sreenivas and Chevaleyre, Yann",
        "2305.18910",
        2023,
    ),
    "loss_truncation": _arxiv(
        "kang2020improved",
        "Improved Natural Language Generation via Loss Truncation",
        "Kang, Daniel and Hashimoto, Tatsunori",
        "2004.14589",
        2020,
    ),
    "gold": _arxiv(
        "pang2021text",
        "Text Generation by Learning from Demonstrations",
        "Pang, Richard Yuanzhe and He, He",
        "2009.07839",
        2020,
    ),
    "tailr": "\n".join(
        [
            "@inproceedings{ji2023tailoring,",
            "  title = {{Tailoring Language Generation Models under Total Variation Distance}},",
            "  author = {Ji, Haozhe and Ke, Pei and Hu, Zhipeng and Zhang, Rongsheng and Huang, Minlie},",
            "  booktitle = {International Conference on Learning Representations},",
            "  year = {2023},",
            "}",
            "",
        ]
    ),
    "generalized_cross_entropy": _arxiv(
        "zhang2018generalized",
        "Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels",
        "Zhang, Zhilu and Sabuncu, Mert R.",
        "1805.07836",
        2018,
    ),
    "focal": _arxiv(
        "lin2017focal",
        "Focal Loss for Dense Object Detection",
        "Lin, Tsung-Yi and Goyal, Priya and Girshick, Ross and He, Kaiming and Dollár, Piotr",
        "1708.02002",
        2017,
    ),
    "responsible_benchmarking": _arxiv(
        "herron2026responsible",
        "Responsible Benchmarking of Fairness for Automatic Speech Recognition",
        "Herron, F. and Richard, A. and Portet, F. and Allauzen, A. and Rossato, S.",
        "2605.10615",
        2026,
    ),
    "interference_matrix": _arxiv(
        "alastruey2025interference",
        "Interference Matrix: Quantifying Cross-Lingual Interference in Transformer Encoders",
        "Alastruey, Belen and Janeiro, João Maria and Allauzen, Alexandre and Elbayad, Maha and Barrault, Loïc and "
        "Costa-jussà, Marta R.",
        "2508.02256",
        2025,
    ),
    "layerwise_fairness": _arxiv(
        "herron2026where",
        "Where Do Self-Supervised Speech Models Become Unfair?",
        "Herron, F. and Hjuler, M. and Rossato, S. and Allauzen, A. and Portet, F.",
        "2604.18249",
        2026,
    ),
    "embedding_errors": _arxiv(
        "herron2026identifying",
        "Identifying and typifying demographic unfairness in phoneme-level embeddings of self-supervised speech "
        "recognition models",
        "Herron, F. and Rossato, S. and Allauzen, A. and Portet, F.",
        "2604.22631",
        2026,
        "Findings of ACL 2026",
    ),
    "task_grouping": _arxiv(
        "standley2020which",
        "Which Tasks Should Be Learned Together in Multi-task Learning?",
        "Standley, Trevor and Zamir, Amir R. and Chen, Dawn and Guibas, Leonidas and Malik, Jitendra and "
        "Savarese, Silvio",
        "1905.07553",
        2020,
        "ICML 2020",
    ),
    "s4d": _arxiv(
        "gu2022parameterization",
        "On the Parameterization and Initialization of Diagonal State Space Models",
        "Gu, Albert and Gupta, Ankit and Goel, Karan and Ré, Christopher",
        "2206.11893",
        2022,
    ),
    "locost": _arxiv(
        "lebronnec2024locost",
        "LOCOST: State-Space Models for Long Document Abstractive Summarization",
        "Le Bronnec, Florian and Duong, Song and Ravaut, Mathieu and Allauzen, Alexandre and Chen, Nancy F. and "
        "Guigue, Vincent and Lumbreras, Alberto and Soulier, Laure and Gallinari, Patrick",
        "2401.17919",
        2024,
    ),
    "long_t5": _arxiv(
        "guo2021longt5",
        "LongT5: Efficient Text-To-Text Transformer for Long Sequences",
        "Guo, Mandy and Ainslie, Joshua and Uthus, David and Ontanon, Santiago and Ni, Jianmo and Sung, Yun-Hsuan and "
        "Yang, Yinfei",
        "2112.07916",
        2021,
    ),
    "best_rq": _arxiv(
        "chiu2022self",
        "Self-supervised Learning with Random-projection Quantizer for Speech Recognition",
        "Chiu, Chung-Cheng and Qin, James and Zhang, Yu and Yu, Jiahui and Wu, Yonghui",
        "2202.01855",
        2022,
    ),
    "polynomial_speech": _arxiv(
        "feillet2026polynomial",
        "Polynomial Mixing for Efficient Self-supervised Speech Encoders",
        "Feillet, Eva and Whetten, Ryan and Picard, David and Allauzen, Alexandre",
        "2603.00683",
        2026,
    ),
    "ctc": "\n".join(
        [
            "@inproceedings{graves2006connectionist,",
            "  title = {{Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent "
            "Neural Networks}},",
            "  author = {Graves, Alex and Fern{\\'a}ndez, Santiago and Gomez, Faustino and Schmidhuber, J{\\\"u}rgen},",
            "  booktitle = {International Conference on Machine Learning},",
            "  year = {2006},",
            "}",
            "",
        ]
    ),
    "pegasus": _arxiv(
        "zhang2020pegasus",
        "PEGASUS: Pre-training with Extracted Gap-sentences for Abstractive Summarization",
        "Zhang, Jingqing and Zhao, Yao and Saleh, Mohammad and Liu, Peter J.",
        "1912.08777",
        2020,
    ),
    "t5": _arxiv(
        "raffel2020exploring",
        "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
        "Raffel, Colin and Shazeer, Noam and Roberts, Adam and Lee, Katherine and Narang, Sharan and Matena, Michael "
        "and Zhou, Yanqi and Li, Wei and Liu, Peter J.",
        "1910.10683",
        2020,
    ),
    "asr_fairness": _arxiv(
        "herron2026responsible",
        "Responsible Benchmarking of Fairness for Automatic Speech Recognition",
        "Herron, F. and Richard, A. and Portet, F. and Allauzen, A. and Rossato, S.",
        "2605.10615",
        2026,
    ),
    "model_based_fairness": _arxiv(
        "liu2021model",
        "Model-Based Approach for Measuring the Fairness in ASR",
        "Liu, Zhe and Veliche, Irina-Elena and Peng, Fuchun",
        "2109.09061",
        2021,
    ),
    "precision_recall_llm": _arxiv(
        "lebronnec2024exploring",
        "Exploring Precision and Recall to assess the quality and diversity of LLMs",
        "Le Bronnec, Florian and Verine, Alexandre and Negrevergne, Benjamin and Chevaleyre, Yann "
        "and Allauzen, Alexandre",
        "2402.10693",
        2024,
    ),
    "improved_precision_recall": _arxiv(
        "kynkaanniemi2019improved",
        "Improved Precision and Recall Metric for Assessing Generative Models",
        'Kynk{\\"a}{\\"a}nniemi, Tuomas and Karras, Tero and Laine, Samuli and Lehtinen, Jaakko and Aila, Timo',
        "1904.06991",
        2019,
    ),
    "density_coverage": _arxiv(
        "naeem2020reliable",
        "Reliable Fidelity and Diversity Metrics for Generative Models",
        "Naeem, Muhammad Ferjad and Oh, Seong Joon and Uh, Youngjung and Choi, Yunjey and Yoo, Jaejun",
        "2002.09797",
        2020,
    ),
    "precision_recall_curves": _arxiv(
        "sajjadi2018assessing",
        "Assessing Generative Models via Precision and Recall",
        "Sajjadi, Mehdi S. M. and Bachem, Olivier and Lucic, Mario and Bousquet, Olivier and Gelly, Sylvain",
        "1806.00035",
        2018,
    ),
    "mauve": _arxiv(
        "pillutla2021mauve",
        "MAUVE: Measuring the Gap Between Neural Text and Human Text using Divergence Frontiers",
        "Pillutla, Krishna and Swayamdipta, Swabha and Zellers, Rowan and Thickstun, John and Welleck, Sean "
        "and Choi, Yejin and Harchaoui, Zaid",
        "2102.01454",
        2021,
    ),
    "scope": _arxiv(
        "duong2025scope",
        "SCOPE: A Self-supervised Framework for Improving Faithfulness in Conditional Text Generation",
        "Duong, Song and Le Bronnec, Florian and Allauzen, Alexandre and Guigue, Vincent and Lumbreras, Alberto and "
        "Soulier, Laure and Gallinari, Patrick",
        "2502.13674",
        2025,
        "ICLR 2025",
    ),
    "dpo": _arxiv(
        "rafailov2023direct",
        "Direct Preference Optimization: Your Language Model is Secretly a Reward Model",
        "Rafailov, Rafael and Sharma, Archit and Mitchell, Eric and Ermon, Stefano and Manning, Christopher D. and "
        "Finn, Chelsea",
        "2305.18290",
        2023,
    ),
    "foton": _arxiv(
        "caillon2025forward",
        "Forward Only Learning for Orthogonal Neural Networks of any Depth",
        "Caillon, Paul and Colagrande, Alex and Fagnou, Erwan and Delattre, Blaise and Allauzen, Alexandre",
        "2512.20668",
        2025,
    ),
    "pepita": _arxiv(
        "dellaferrera2022error",
        "Error-driven Input Modulation: Solving the Credit Assignment Problem without a Backward Pass",
        "Dellaferrera, Giorgia and Kreiman, Gabriel",
        "2201.11665",
        2022,
    ),
    "feedback_alignment": _arxiv(
        "lillicrap2014random",
        "Random feedback weights support learning in deep neural networks",
        "Lillicrap, Timothy P. and Cownden, Daniel and Tweed, Douglas B. and Akerman, Colin J.",
        "1411.0247",
        2014,
    ),
    "direct_feedback_alignment": _arxiv(
        "nokland2016direct",
        "Direct Feedback Alignment Provides Learning in Deep Neural Networks",
        "Nøkland, Arild",
        "1609.01596",
        2016,
    ),
    "quantized": _arxiv(
        "delattre2025conditional",
        "Conditional Distribution Quantization in Machine Learning",
        "Delattre, Blaise and Delattre, Sylvain and Vérine, Alexandre and Allauzen, Alexandre",
        "2502.07151",
        2025,
    ),
    "annealed_points": _arxiv(
        "perera2024annealed",
        "Annealed Multiple Choice Learning: Overcoming limitations of Winner-takes-all with annealing",
        "Perera, David and Letzelter, Victor and Mariotte, Théo and Cortés, Adrien and Chen, Mickaël and Essid, Slim "
        "and Richard, Gaël",
        "2407.15580",
        2024,
    ),
    "flow_matching": _arxiv(
        "lipman2022flow",
        "Flow Matching for Generative Modeling",
        "Lipman, Yaron and Chen, Ricky T. Q. and Ben-Hamu, Heli and Nickel, Maximilian and Le, Matt",
        "2210.02747",
        2022,
    ),
    "mc_dropout": _arxiv(
        "gal2015dropout",
        "Dropout as a Bayesian Approximation: Representing Model Uncertainty in Deep Learning",
        "Gal, Yarin and Ghahramani, Zoubin",
        "1506.02142",
        2015,
    ),
}

# Names as users type them: models, mixers, remedies, optimisers, solvers, data laws.
_METHODS = {
    "fno": ("fno",),
    "mano": ("mano",),
    "smooth_mano": ("mano",),
    "linear_pyramid": ("mano",),
    "hybrid": ("fno", "mano"),
    "neuralop:FNO": ("fno", "neuraloperator"),
    "neuralop:TFNO": ("tfno", "neuraloperator"),
    "neuralop:UNO": ("uno", "neuraloperator"),
    "neuraloperator": ("neuraloperator",),
    "spectral": ("fno",),
    "multipole": ("mano",),
    "sine-cosine": ("sno",),
    "adamw": ("adamw",),
    "onecycle": ("onecycle",),
    "resolution_shift": ("resolution", "multi_resolution", "discretization"),
    "multi_resolution": ("multi_resolution",),
    "latent": ("crop",),
    "dealias": ("cno",),
    "darcy": ("fno",),
    "darcy_solver": ("black_box_multigrid",),
    "etdrk": ("etdrk",),
    "gram_iteration": ("gram_iteration", "zero_padding_norms"),
    "pushforward": ("pushforward",),
    "correlation_time": ("jax_cfd",),
    "lpsda": ("lpsda",),
    "pdebench": ("pdebench",),
    "the-well": ("the_well",),
    "randomized_smoothing": ("cohen", "lvm_rs", "bridging", "smoothing_sequences"),
    "highway": ("highway",),
    "state_feedback": ("state_feedback",),
    "state_space": ("s4d", "locost"),
    "sparse_attention": ("long_t5",),
    "resolvent": ("resolvent_attention", "block_resolvent"),
    "token_mixing": ("token_mixing",),
    "precision_recall_losses": (
        "precision_recall_losses",
        "lambda_pr",
        "loss_truncation",
        "gold",
        "tailr",
        "generalized_cross_entropy",
        "focal",
    ),
    "fairness": ("asr_fairness", "model_based_fairness"),
    "interference": ("interference_matrix", "task_grouping"),
    "private_generators": ("private_generators", "private_diffusion", "private_gans", "lira", "one_training"),
    "regime_errors": ("responsible_benchmarking", "layerwise_fairness", "embedding_errors"),
    "layerwise_fairness": ("layerwise_fairness",),
    "embedding_errors": ("embedding_errors",),
    "encoder_decoder": ("t5", "locost"),
    "gap_sentences": ("pegasus",),
    "best_rq": ("best_rq",),
    "polynomial_speech": ("polynomial_speech",),
    "ctc": ("ctc",),
    "scope": ("scope", "dpo"),
    "dpo": ("dpo",),
    "foton": ("foton",),
    "precision_recall": (
        "precision_recall_llm",
        "improved_precision_recall",
        "density_coverage",
        "precision_recall_curves",
        "mauve",
    ),
    "pepita": ("pepita",),
    "feedback_alignment": ("feedback_alignment",),
    "direct_feedback_alignment": ("direct_feedback_alignment",),
    "quantized": ("quantized", "annealed_points"),
    "flow": ("flow_matching",),
    "dropout": ("mc_dropout",),
}

CITATIONS: dict[str, str] = {name: "\n".join(_PAPERS[key] for key in keys) for name, keys in _METHODS.items()}


def citations_of(*methods: str) -> str:
    """The BibTeX entries of these methods, each paper once, in the order of first mention.

    Raises ValueError for a method that is not in `CITATIONS`, naming those that are.
    """
    keys: dict[str, None] = {}
    for method in methods:
        if method not in _METHODS:
            raise ValueError(f"no citation for {method!r}: expected one of {', '.join(_METHODS)}")
        keys |= dict.fromkeys(_METHODS[method])
    return "\n".join(_PAPERS[key] for key in keys)
