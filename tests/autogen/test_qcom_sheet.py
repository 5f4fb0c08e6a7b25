"""Generated Adreno tables against numbers typed by hand from the sheet: registers, packets, events, descriptors."""

from __future__ import annotations

from hcqrt.autogen.qcom import a6xx, a7xx, adreno


def test_registers_of_the_dispatch_sheet() -> None:
    # qcom.md section 3: offset and the fields that a dispatch sets, as (msb, lsb, shift).
    expected = {
        "HLSQ_INVALIDATE_CMD": (0xBB08, {"CS_STATE": (5, 5, 0), "CS_IBO": (6, 6, 0)}),
        "SP_MODE_CONTROL": (0xAB00, {"CONSTANT_DEMOTION_ENABLE": (0, 0, 0), "ISAMMODE": (2, 1, 0)}),
        "SP_TP_MODE_CNTL": (0xB309, {"ISAMMODE": (1, 0, 0)}),
        "SP_PERFCTR_ENABLE": (0xAE0F, {"CS": (5, 5, 0)}),
        "TPL1_DBG_ECO_CNTL": (0xB600, {}),
        "HLSQ_CS_NDRANGE_0": (
            0xB990,
            {"KERNELDIM": (1, 0, 0), "LOCALSIZEX": (11, 2, 0), "LOCALSIZEY": (21, 12, 0), "LOCALSIZEZ": (31, 22, 0)},
        ),
        "HLSQ_CS_CNTL_0": (
            0xB997,
            {
                "WGIDCONSTID": (7, 0, 0),
                "WGSIZECONSTID": (15, 8, 0),
                "WGOFFSETCONSTID": (23, 16, 0),
                "LOCALIDREGID": (31, 24, 0),
            },
        ),
        "HLSQ_CS_CNTL_1": (0xB998, {"LINEARLOCALIDREGID": (7, 0, 0), "THREADSIZE": (9, 9, 0)}),
        "HLSQ_CS_KERNEL_GROUP_X": (0xB999, {"": (31, 0, 0)}),
        "HLSQ_CS_KERNEL_GROUP_Z": (0xB99B, {"": (31, 0, 0)}),
        "SP_CS_CTRL_REG0": (
            0xA9B0,
            {
                "HALFREGFOOTPRINT": (6, 1, 0),
                "FULLREGFOOTPRINT": (12, 7, 0),
                "BRANCHSTACK": (19, 14, 0),
                "THREADSIZE": (20, 20, 0),
                "EARLYPREAMBLE": (23, 23, 0),
                "MERGEDREGS": (31, 31, 0),
            },
        ),
        "SP_CS_CTRL_REG1": (0xA9B1, {"SHARED_SIZE": (4, 0, 0), "CONSTANTRAMMODE": (6, 5, 0)}),
        "SP_CS_OBJ_FIRST_EXEC_OFFSET": (0xA9B3, {}),
        "SP_CS_OBJ_START": (0xA9B4, {"": (63, 0, 0)}),
        "SP_CS_PVT_MEM_PARAM": (0xA9B6, {"MEMSIZEPERITEM": (7, 0, 9), "HWSTACKSIZEPERTHREAD": (31, 24, 0)}),
        "SP_CS_PVT_MEM_ADDR": (0xA9B7, {"": (63, 0, 0)}),
        "SP_CS_PVT_MEM_SIZE": (0xA9B9, {"TOTALPVTMEMSIZE": (17, 0, 12), "PERWAVEMEMLAYOUT": (31, 31, 0)}),
        "SP_CS_PVT_MEM_HW_STACK_OFFSET": (0xA9BD, {"OFFSET": (18, 0, 11)}),
        "SP_CS_INSTRLEN": (0xA9BC, {}),
        "HLSQ_CS_CNTL": (0xB987, {"CONSTLEN": (7, 0, 2), "ENABLED": (8, 8, 0)}),
        "SP_CS_TEX_SAMP": (0xA9E2, {}),
        "SP_CS_TEX_CONST": (0xA9E6, {}),
        "SP_CS_IBO": (0xA9F2, {}),
        "SP_CS_TEX_COUNT": (0xA9BA, {}),
        "SP_CS_IBO_COUNT": (0xAA00, {}),
        "SP_PS_TP_BORDER_COLOR_BASE_ADDR": (0xB180, {}),
        "SP_TP_BORDER_COLOR_BASE_ADDR": (0xB302, {}),
        "SP_CS_CONFIG": (0xA9BB, {"ENABLED": (8, 8, 0), "NTEX": (16, 9, 0), "NSAMP": (21, 17, 0), "NIBO": (28, 22, 0)}),
        "SP_CS_CNTL_0": (0xA9C2, {}),
        "SP_CS_CNTL_1": (0xA9C3, {}),
        "HLSQ_CS_CTRL_REG1": (0xB9D0, {}),
        "CP_ALWAYS_ON_COUNTER": (0x0980, {"": (63, 0, 0)}),
    }
    for name, (offset, fields) in expected.items():
        assert a6xx.REGISTERS[name][0] == offset, name
        assert {field: a6xx.REGISTERS[name][1].get(field) for field in fields} == fields, name


def test_registers_that_moved_to_a7xx() -> None:
    # qcom.md section 3.2.
    expected = {
        "HLSQ_CS_CNTL": 0xA9CD, "HLSQ_CS_NDRANGE_0": 0xA9D4, "HLSQ_CS_NDRANGE_6": 0xA9DA, "HLSQ_CS_CNTL_1": 0xA9DB,
        "HLSQ_CS_KERNEL_GROUP_X": 0xA9DC, "HLSQ_CS_KERNEL_GROUP_Z": 0xA9DE, "HLSQ_FS_CNTL_0": 0xA9C6,
        "HLSQ_CONTROL_2_REG": 0xA9C8, "HLSQ_CONTROL_5_REG": 0xA9CB, "HLSQ_INVALIDATE_CMD": 0xAB1F,
        "HLSQ_CS_LAST_LOCAL_SIZE": 0xA9DF, "SP_CS_VGPR_CONFIG": 0xA9C5, "SP_CS_UNKNOWN_A9BE": 0xA9BE,
        "SP_CS_CTRL_REG0": 0xA9B0, "SP_CS_OBJ_START": 0xA9B4,
    }  # fmt: skip
    assert {name: a7xx.REGISTERS[name][0] for name in expected} == expected
    gone = {"HLSQ_CS_CNTL_0", "HLSQ_CS_CTRL_REG1", "HLSQ_SHARED_CONSTS"}
    assert gone <= set(a6xx.REGISTERS) and not gone & set(a7xx.REGISTERS)
    assert a7xx.REGISTERS["SP_CS_CNTL_1"][1]["THREADSIZE"] == (8, 8, 0)
    assert a7xx.REGISTERS["HLSQ_CS_CNTL_1"][1]["WGTILEWIDTH"] == (25, 20, 0)
    assert a7xx.REGISTERS["HLSQ_CS_CNTL_1"][1]["WGTILEHEIGHT"] == (31, 26, 0)
    assert (a6xx.ARRAYS["SP_CS_BINDLESS_BASE"][:3], a7xx.ARRAYS["SP_CS_BINDLESS_BASE"][:3]) == (
        (0xA9E8, 2, 5),
        (0xA9E8, 2, 8),
    )
    assert a7xx.ARRAYS["SP_PERFCTR_SP_SEL"][:3] == (0xAE80, 1, 36)  # its own, not the one that all chips have


def test_packets_of_the_sheet() -> None:
    # qcom.md section 2.
    opcodes = {
        "CP_NOP": 0x10, "CP_WAIT_MEM_WRITES": 0x12, "CP_WAIT_FOR_ME": 0x13, "CP_WAIT_MEM_GTE": 0x14,
        "CP_WAIT_FOR_IDLE": 0x26, "CP_RUN_OPENCL": 0x31, "CP_EXEC_CS": 0x33, "CP_LOAD_STATE6_FRAG": 0x34,
        "CP_LOAD_STATE6_GEOM": 0x32, "CP_LOAD_STATE6": 0x36, "CP_INVALIDATE_STATE": 0x3B, "CP_WAIT_REG_MEM": 0x3C,
        "CP_MEM_WRITE": 0x3D, "CP_REG_TO_MEM": 0x3E, "CP_INDIRECT_BUFFER": 0x3F, "CP_EXEC_CS_INDIRECT": 0x41,
        "CP_MEM_TO_REG": 0x42, "CP_COND_WRITE5": 0x45, "CP_EVENT_WRITE": 0x46, "CP_SMMU_TABLE_UPDATE": 0x53,
        "CP_SET_MARKER": 0x65, "CP_MEM_TO_MEM": 0x73,
    }  # fmt: skip
    assert {name: a6xx.OPCODES.get(name) for name in opcodes} == opcodes
    assert (a7xx.OPCODES["CP_EVENT_WRITE7"], a7xx.OPCODES["CP_THREAD_CONTROL"]) == (0x46, 0x17)
    assert (a7xx.OPCODES["CP_CCHE_INVALIDATE"], a7xx.OPCODES["CP_WAIT_TIMESTAMP"]) == (0x3A, 0x14)
    load = a6xx.PACKETS["CP_LOAD_STATE6"]
    assert load[0] == {
        "DST_OFF": (13, 0, 0),
        "STATE_TYPE": (15, 14, 0),
        "STATE_SRC": (17, 16, 0),
        "STATE_BLOCK": (21, 18, 0),
        "NUM_UNIT": (31, 22, 0),
    }
    assert load[1] == {"EXT_SRC_ADDR": (31, 2, 2)}
    assert a6xx.PACKETS["CP_REG_TO_MEM"][0] == {
        "REG": (17, 0, 0),
        "CNT": (29, 18, 0),
        "64B": (30, 30, 0),
        "ACCUMULATE": (31, 31, 0),
    }
    assert a6xx.PACKETS["CP_EXEC_CS_INDIRECT"][3] == {
        "LOCALSIZEX": (11, 2, 0),
        "LOCALSIZEY": (21, 12, 0),
        "LOCALSIZEZ": (31, 22, 0),
    }
    assert a6xx.WHEN["CP_SET_MARKER"][0]["IFPC_MODE"] == ("SET_IFPC_MODE",)
    assert a7xx.WHEN["CP_COND_REG_EXEC"][1]["DWORDS"] == ("PRED_TEST", "RENDER_MODE", "THREAD_MODE")
    assert a7xx.WHEN["CP_EVENT_WRITE7"][1] == {"": ("EV_DST_RAM",), "ONCHIP_ADDR_0": ("EV_DST_ONCHIP",)}
    assert 3 not in a7xx.WHEN["CP_EVENT_WRITE7"]  # PAYLOAD_0 is there with both destinations
    events = {"CACHE_FLUSH_TS": 4, "WT_DONE_TS": 8, "RB_DONE_TS": 0x16, "PC_CCU_INVALIDATE_COLOR": 0x19}
    events |= {"PC_CCU_FLUSH_COLOR_TS": 0x1D, "CACHE_INVALIDATE": 0x31}
    assert {name: a6xx.EVENTS.get(name) for name in events} == events
    events = {"CACHE_CLEAN": 0x31, "CACHE_FLUSH7": 0x32, "CACHE_INVALIDATE7": 0x33, "CACHE_FLUSH_TS": 4}
    assert {name: a7xx.EVENTS.get(name) for name in events} == events


def test_descriptors_of_the_sheet() -> None:
    # qcom.md section 4; a format's number is hexadecimal there.
    texture = a6xx.DESCRIPTORS["A6XX_TEX_CONST"]
    assert list(texture) == list(range(16))
    assert (texture[0]["SWIZ_Z"], texture[0]["FMT"], texture[0]["SWAP"]) == ((12, 10, 0), (29, 22, 0), (31, 30, 0))
    assert (texture[2]["PITCHALIGN"], texture[2]["PITCH"], texture[2]["TYPE"]) == ((3, 0, 0), (28, 7, 0), (31, 29, 0))
    assert (texture[3]["ARRAY_PITCH"], texture[3]["MIN_LAYERSZ"]) == ((22, 0, 12), (26, 23, 12))
    assert (texture[4]["BASE_LO"], texture[5]["BASE_HI"], texture[5]["DEPTH"]) == ((31, 5, 5), (16, 0, 0), (29, 17, 0))
    assert "MUTABLEEN" not in texture[1] and a7xx.DESCRIPTORS["A6XX_TEX_CONST"][1]["MUTABLEEN"] == (31, 31, 0)
    sampler = adreno.DESCRIPTORS["A6XX_TEX_SAMP"]
    assert (sampler[0]["XY_MAG"], sampler[0]["WRAP_R"]) == ((2, 1, 0), (13, 11, 0))
    assert sampler[1]["UNNORM_COORDS"] == (5, 5, 0)
    assert a6xx.WORD_TYPES["A6XX_TEX_SAMP"][0]["LOD_BIAS"] == "fixed.8"
    assert adreno.DESCRIPTORS["A6XX_UBO"] == {
        0: {"BASE_LO": (31, 0, 0)},
        1: {"BASE_HI": (16, 0, 0), "SIZE": (31, 17, 0)},
    }
    formats = {
        "8_UNORM": 0x03, "8_UINT": 0x05, "8_SINT": 0x06, "16_UNORM": 0x15, "16_FLOAT": 0x17, "16_UINT": 0x18,
        "16_SINT": 0x19, "8_8_8_8_UNORM": 0x30, "8_8_8_8_UINT": 0x33, "8_8_8_8_SINT": 0x34, "11_11_10_FLOAT": 0x42,
        "16_16_FLOAT": 0x45, "32_FLOAT": 0x4A, "32_UINT": 0x4B, "32_SINT": 0x4C, "16_16_16_16_UNORM": 0x60,
        "16_16_16_16_FLOAT": 0x62, "16_16_16_16_UINT": 0x63, "16_16_16_16_SINT": 0x64, "32_32_FLOAT": 0x67,
        "32_32_32_FLOAT": 0x74, "32_32_32_32_FLOAT": 0x82, "32_32_32_32_UINT": 0x83, "32_32_32_32_SINT": 0x84,
    }  # fmt: skip
    assert {name: adreno.ENUMS["a6xx_format"].get(f"FMT6_{name}") for name in formats} == formats
